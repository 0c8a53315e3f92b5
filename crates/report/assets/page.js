// Puts the page together.
const jsonButton = () => button("JSON", "Download all data of this page as JSON", fileName(data.title, ".json"), "application/json", () => JSON.stringify(data, null, 1) + "\n");
const csvButton = (rows) => button("CSV", "Download the figures as CSV", fileName(data.title, ".csv"), "text/csv", rows);
const pageCsv = () => data.is_single ? data.runs[0].csv
  : data.differences ? tableCsv(data.differences.columns, data.differences.rows)
  : data.overview ? tableCsv(data.overview.columns, data.overview.rows) : "";

// Model, server and load, the answer, and when and with what it was measured.
const begin = (found, facts) => {
  const shown = ["name", "date", "hardware", "dataset", "tokens"];
  place.append(make("h1", {}, data.title));
  if (found) {
    const { tone, headline, lines, trust } = found;
    const box = make("section", { class: "answer " + tone + (headline.length > 60 ? " long" : ""), "aria-label": "Answer" }, make("strong", {}, ...prose(headline)), ...lines.map((line) => make("p", {}, ...prose(line))));
    if (trust) box.append(make("p", {}, verdictBadge(trust[0]), " ", ...prose(trust[1])));
    place.append(box);
  }
  place.append(make("p", { class: "dim small" }, facts.filter((fact) => shown.includes(fact.name)).map((fact) => fact.value).join(" \u00b7 ")));
};
const measured = (facts, command, plan, rows) => place.append(
  fold("What was measured, and the command that repeats it", origin(facts, command, plan)),
  make("p", { class: "saves" }, "Download: ", rows ? csvButton(rows) : null, " ", jsonButton()));

const single = (run) => {
  begin(run.answer, run.facts);
  if (!run.answer.trust) place.append(verdict(run));
  showFigures(run, () => measured(run.facts, run.command, run.plan, pageCsv));
};

// Parts of runs are made when they are opened: a page of fifty runs must open at once.
const runPart = (run, index) => {
  const part = make("details", { id: "run-" + index, class: "run" },
    make("summary", {}, make("span", { class: "name" }, run.name), " ", verdictBadge(run.verdict), " ", make("span", { class: "dim" }, run.load)));
  part.addEventListener("toggle", () => {
    if (!part.open || part.dataset.made) return;
    part.dataset.made = "yes";
    within(part, () => {
      place.append(verdict(run));
      showFigures(run, () => place.append(fold("What was measured, and the command that repeats it", origin(run.facts, run.command, run.plan)),
        make("p", { class: "saves" }, "Download: ", csvButton(() => run.csv))));
    });
    fit();
  });
  place.append(part);
};

// Charts above the table: those that show the answer.
const LEADING = 2;
const charts = (title, all) => {
  if (!all.length) return;
  heading(title);
  const box = make("div", { class: "plots" });
  place.append(box);
  for (const chart of all) pointChart(box, chart);
};

const several = () => {
  begin(data.answer, data.facts);
  // What makes a comparison meaningless, and a broken rule, are part of its answer.
  const above = data.differences ? data.notes.filter((note) => note.severity === "invalid") : [];
  place.append(noteList(above));
  if (data.differences) {
    heading("Differences");
    differenceChart(place, data.differences);
    place.append(table(data.differences.columns, data.differences.rows, "Differences"));
  }
  for (const group of data.groups) charts(group.title, group.charts.slice(0, LEADING));
  if (data.overview) {
    heading(data.runs.length || data.cards.length ? "Runs" : "Table");
    place.append(table(data.overview.columns, data.overview.rows, "Runs", true));
  }
  trust(data.notes.filter((note) => !above.includes(note)));
  measured(data.facts, data.command, null, data.differences || data.overview ? pageCsv : null);
  for (const group of data.groups) charts(group.title + ": more charts", group.charts.slice(LEADING));
  if (data.runs.length) {
    heading("Each run", "screen");
    data.runs.forEach(runPart);
  }
};

// Canvases hold colours and widths as they were drawn; SVG only its width.
const redraw = () => plots.forEach(({ plot }) => plot.redraw(false, true));
const fit = () => {
  plots.forEach(({ plot, width }) => plot.setSize({ width: width(), height: plot.height }));
  redraws.forEach((render) => render());
};

data.runs.forEach((run, index) => { run.key = "run-" + index; });
document.querySelectorAll("noscript").forEach((element) => element.remove());
data.is_single ? single(data.runs[0]) : several();
place.append(make("footer", {}, data.footer));
fit();
let pending = null;
addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(fit, 100);
});
// Paper has nothing to click on.
const folds = () => document.querySelectorAll("details.told");
addEventListener("beforeprint", () => folds().forEach((one) => { one.dataset.was = one.open; one.open = true; }));
addEventListener("afterprint", () => folds().forEach((one) => { one.open = one.dataset.was === "true"; }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", redraw);
// A link to a run opens its part, also when the page is opened with it.
const follow = () => {
  const found = /^#run-(\d+)$/.exec(location.hash);
  if (found) showRun(Number(found[1]));
};
addEventListener("hashchange", follow);
follow();
globalThis.tokometerPlots = plots;

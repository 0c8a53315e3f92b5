// Puts the page together.
const jsonButton = () => button("JSON", "Download all data of this page as JSON", fileName(data.title, ".json"), "application/json", () => JSON.stringify(data, null, 1) + "\n");
const csvButton = (rows) => button("CSV", "Download the figures as CSV", fileName(data.title, ".csv"), "text/csv", rows);
const pageCsv = () => data.is_single ? data.runs[0].csv
  : data.differences ? tableCsv(data.differences.columns, data.differences.rows)
  : data.overview ? tableCsv(data.overview.columns, data.overview.rows) : "";

const single = (run) => {
  place.append(make("h1", {}, run.title), origin(run.facts, run.command, run.plan),
    make("p", { class: "saves" }, "Download: ", csvButton(pageCsv), " ", jsonButton()));
  showFigures(run);
};

const answer = () => {
  if (!data.answer) return;
  const { tone, headline, lines } = data.answer;
  place.append(make("section", { class: "answer " + tone + (headline.length > 60 ? " long" : ""), "aria-label": "Answer" }, make("strong", {}, ...prose(headline)), ...lines.map((line) => make("p", {}, ...prose(line)))));
};

// Parts of runs are made when they are opened: a page of fifty runs must open at once.
const runPart = (run, index) => {
  const part = make("details", { id: "run-" + index, class: "run" },
    make("summary", {}, make("span", { class: "name" }, run.name), " ", verdictBadge(run.verdict), " ", make("span", { class: "dim" }, run.load)));
  part.addEventListener("toggle", () => {
    if (!part.open || part.dataset.made) return;
    part.dataset.made = "yes";
    within(part, () => {
      place.append(origin(run.facts, run.command, run.plan), make("p", { class: "saves" }, "Download: ", csvButton(() => run.csv)));
      showFigures(run);
    });
    fit();
  });
  place.append(part);
};

const several = () => {
  place.append(make("h1", {}, data.title));
  answer();
  place.append(noteList(data.notes), origin(data.facts, data.command, null),
    make("p", { class: "saves" }, "Download: ", data.differences || data.overview ? csvButton(pageCsv) : null, " ", jsonButton()));
  if (data.differences) {
    heading("Differences");
    differenceChart(place, data.differences);
    place.append(table(data.differences.columns, data.differences.rows, "Differences"));
  }
  for (const group of data.groups) {
    heading(group.title);
    const box = make("div", { class: "plots" });
    place.append(box);
    for (const chart of group.charts) pointChart(box, chart);
  }
  if (data.overview) {
    heading(data.runs.length || data.cards.length ? "Runs" : "Table");
    place.append(table(data.overview.columns, data.overview.rows, "Runs", true));
  }
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

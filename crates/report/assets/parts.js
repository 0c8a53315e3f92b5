// Parts of every page: elements, numbers, tables, downloads. No request leaves the page.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("page");
const absent = "\u2013";
// What is made next goes here: the page, or the part of one run.
let place = main;

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  for (const child of children) if (child != null) element.append(child);
  return element;
};
const within = (element, work) => {
  const before = place;
  place = element;
  work();
  place = before;
  return element;
};
const heading = (text, kind = "") => place.append(make(place === main ? "h2" : "h3", { class: ("head " + kind).trim() }, text));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const palette = ["a", "b", "c", "d", "e", "f", "g", "h"];

const grouped = (text) => text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const digits = (value) => value == null || !isFinite(value) ? absent
  : Math.abs(value) >= 1000 ? grouped(value.toFixed(0))
  : Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1)
  : Math.abs(value) >= 0.1 || value === 0 ? value.toFixed(2) : value.toPrecision(2);
// A number of an axis, without digits that say nothing.
const plainNumber = (value) => Math.abs(value) >= 1000 ? grouped(String(Math.round(value))) : String(Number(value.toPrecision(6)));

// A name that is safe for a file.
const fileName = (text, ending) => (text.replace(/[^A-Za-z0-9._=-]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60) || "tokometer") + ending;
const download = (file, type, text) => {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
};
// The text is made when it is asked for: a page of many requests would hold it twice.
const button = (label, title, file, type, text) => {
  const element = make("button", { type: "button", class: "save", title, "data-file": file }, label);
  element.addEventListener("click", () => download(file, type, text()));
  return element;
};
// Spreadsheets compute a cell that begins like a formula, so text that does begins with an apostrophe.
const csvCell = (value) => {
  if (value == null) return "";
  const isNumber = typeof value === "number" || /^-?\d+(\.\d+)?$/.test(value);
  const text = !isNumber && /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
  return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
};
const csv = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\n") + "\n";

const cellText = (cell) => cell == null ? null : cell.element ? cell.element.textContent
  : cell.value !== undefined ? cell.value : cell.text !== undefined ? cell.text : cell;
// A mark, an interval or an outcome becomes a column of its own.
const BESIDE = { mark: " mark", range: " 95 % CI", outcome: " outcome" };
const tableCsv = (columns, rows) => {
  const beside = columns.map((_, column) => Object.keys(BESIDE).filter((key) => rows.some((row) => row[column] && row[column][key])));
  const wide = (cells, more) => cells.flatMap((cell, column) => [cellText(cell), ...beside[column].map((key) => more(cell, key))]);
  return csv([wide(columns, (head, key) => head + BESIDE[key]), ...rows.map((row) => wide(row, (cell, key) => cell && cell[key]))]);
};

const runLink = (run, text) => {
  const link = make("a", { href: "#run-" + run }, text);
  link.addEventListener("click", (event) => { if (showRun(run)) event.preventDefault(); });
  return link;
};
// Opens the part of a run and moves there; false where the page has none.
const showRun = (run) => {
  const part = document.getElementById("run-" + run) || document.getElementById("row-" + run);
  if (!part) return false;
  if (part.tagName === "DETAILS") part.open = true;
  part.scrollIntoView({ block: "start" });
  const focus = part.querySelector("summary") || part;
  if (focus === part) part.setAttribute("tabindex", "-1");
  focus.focus({ preventScroll: true });
  return true;
};

// A cell for people: few digits, and no line break before a percent sign or a unit of time. The CSV has all digits.
const shownCell = (value) => typeof value === "number" ? (Number.isInteger(value) ? grouped(String(value)) : digits(value))
  : String(value).replace(/ (?=%|ms$|s$)/g, "\u00a0");
// What the marks behind figures mean.
const MARKED = { "?": "too few requests for this percentile", "~": "SUSPECT: the client may have moved it by more than 1 %", "!": "INVALID: the client may have moved it by more than 5 %" };
const marksLegend = (rows) => {
  const used = Object.keys(MARKED).filter((mark) => rows.some((row) => row.some((cell) => cell && cell.mark === mark && cell.value != null)));
  return used.length ? make("p", { class: "dim small" }, used.map((mark) => mark + " " + MARKED[mark]).join(" \u00b7 ")) : null;
};
const cellElement = (cell, isHead) => {
  const tag = isHead ? "th" : "td", scope = isHead ? { scope: "row" } : {};
  if (cell == null) return make(tag, scope, absent);
  if (cell.element) return make(tag, scope, cell.element);
  if (cell.run !== undefined) return make(tag, { ...scope, class: cell.text.length <= 40 ? "text name" : "text" }, runLink(cell.run, cell.text));
  if (cell.value !== undefined) return make(tag, scope, cell.value == null ? absent : shownCell(cell.value), cell.mark && cell.value != null ? make("span", { class: cell.mark === "!" ? "mark gravest" : "mark", title: MARKED[cell.mark] }, cell.mark) : null, cell.range || cell.outcome ? make("div", { class: "range" }, shownCell(cell.range || cell.outcome)) : null);
  if (cell.text !== undefined) return make(tag, { ...scope, class: "text" }, cell.text);
  return make(tag, scope, shownCell(cell));
};
// A table that scrolls by itself where the window is narrow, also by keyboard, with its data as CSV.
const table = (columns, rows, caption, isRuns = false) => {
  const body = make("tbody");
  rows.forEach((row, index) => body.append(make("tr", isRuns ? { id: "row-" + index } : {}, ...row.map((cell, column) => cellElement(cell, column === 0)))));
  const isText = (column) => rows.some((row) => row[column] && row[column].text !== undefined);
  const heads = columns.map((name, column) => make("th", { scope: "col", ...(isText(column) ? { class: "text" } : {}) }, name));
  return make("div", { class: "table" },
    make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
      make("table", columns.length > 6 ? { class: columns.length > 12 ? "many most" : "many" } : {}, make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, ...heads)), body)),
    marksLegend(rows) || "",
    button("CSV", "Download this table as CSV", fileName(data.title + "-" + caption, ".csv"), "text/csv", () => tableCsv(columns, rows)));
};

// The numbers behind a chart, for readers without sight of it. Built when opened.
const dataTable = (columns, rows, caption) => {
  const details = make("details", { class: "data" }, make("summary", {}, "Data table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.dataset.made) return;
    details.dataset.made = "yes";
    const all = rows(), shown = all.length > 400 ? all.filter((_, index) => index % Math.ceil(all.length / 400) === 0) : all;
    details.append(table(columns, shown, caption));
    if (shown.length < all.length) details.append(make("p", { class: "dim" }, shown.length + " of " + all.length + " rows."));
  });
  return details;
};

// Text whose words between backticks are code.
const prose = (text) => {
  const parts = String(text).split("`");
  return parts.length % 2 ? parts.map((part, index) => index % 2 ? make("code", {}, part) : part) : [text];
};
const verdictBadge = (verdict) => make("span", { class: "verdict " + String(verdict).toLowerCase() }, verdict);
const noteList = (notes) => {
  const box = make("div");
  for (const note of notes) box.append(make("div", { class: "note " + note.severity.toLowerCase() },
    make("code", {}, note.code), " ", ...prose(note.text), note.advice ? make("div", { class: "dim" }, ...prose(note.advice)) : null));
  return box;
};
// What a reader may want to know, folded; on paper it is open.
const fold = (title, ...children) => make("details", { class: "told" }, make("summary", {}, title), ...children);
const trust = (notes, ...before) => {
  const count = (severity, word) => {
    const found = notes.filter((note) => note.severity === severity).length;
    return found ? [found + " " + word + (found === 1 ? "" : "s")] : [];
  };
  const counts = [...count("invalid", "reason for INVALID"), ...count("suspect", "warning"), ...count("remark", "remark")];
  if (notes.length || before.length) place.append(fold("How far to trust it" + (counts.length ? ": " + counts.join(", ").replace("reason for INVALIDs", "reasons for INVALID") : ""), ...before, noteList(notes)));
};
// Where the figures come from, and the command that repeats them.
const origin = (facts, command, plan) => {
  const list = make("dl", { class: "facts" });
  for (const fact of facts) list.append(make("div", {}, make("dt", {}, fact.name), make("dd", {}, fact.value)));
  if (command || plan) list.append(make("div", { class: "repeat" }, make("dt", {}, "repeat with"), make("dd", {}, make("code", {}, command || "tokometer bench --plan plan.json"))));
  return list;
};

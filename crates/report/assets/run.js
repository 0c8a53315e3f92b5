// One run: figures, distributions, its course over time, what went on inside the server, requests.
const plots = [];
const axis = (label, more = {}) => ({
  label, labelSize: 16, size: 52, gap: 4, stroke: () => colour("dim"), labelFont: "12px system-ui", font: "11px system-ui",
  grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line"), width: 1, size: 5 }, ...more,
});

// Amounts over time: a course that begins above zero looks steeper than it is.
const fromZero = { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } };
const across = (label) => axis(label, { size: 32 });

// A card with a plot in it, kept as wide as the card. The values in the legend are those under the mouse: at
// rest there are none to show.
const plot = (parent, title, options, columns, kind = "") => {
  const card = make("figure", { class: "plot at-rest " + kind, "aria-label": title }, make("h3", {}, title));
  parent.append(card);
  const width = () => Math.max(240, card.clientWidth - 22);
  const hooks = { ...(options.hooks || {}), setCursor: [(drawn) => card.classList.toggle("at-rest", drawn.cursor.idx == null)] };
  const drawn = new uPlot({
    width: width(), height: options.height || 260, legend: { live: true }, ...options, hooks,
    cursor: { drag: { x: true, y: false }, ...(options.cursor || {}) },
  }, columns, card);
  drawn.root.querySelector("canvas").setAttribute("aria-hidden", "true");
  if (kind !== "full") card.append(dataTable(options.series.map((series) => series.label), () => columns[0].map((_, row) => columns.map((column) => column[row])), title));
  plots.push({ plot: drawn, width, title });
  return drawn;
};
const line = (label, index, more = {}) => ({
  label, stroke: () => colour(palette[index % palette.length]), width: 1.6, points: { show: false },
  value: (_, value) => digits(value), ...more,
});

const tiles = (run) => {
  // Rows of equal length: a tile alone in the last row looks like a mistake.
  const rows = Math.ceil(run.tiles.length / 7);
  const box = make("div", { class: "tiles", style: "--columns:" + Math.max(4, Math.ceil(run.tiles.length / rows)) });
  for (const tile of run.tiles) box.append(make("div", { class: "tile" }, make("b", {}, tile.value), tile.verdict ? verdictBadge(tile.verdict) : null, make("span", {}, tile.label)));
  return box;
};

const verdict = (run) => make("p", {}, verdictBadge(run.verdict), " " + run.remark);

const affected = (run) => make("ul", { class: "affected" }, ...(run.affected.length ? run.affected : [{ verdict: run.verdict, text: "no figure is affected" }]).map((group) =>
  make("li", {}, verdictBadge(group.verdict), " " + group.text)));

const cdf = (box, spread) => plot(box, spread.label + ": CDF (cumulative share of values)", {
  scales: { x: { time: false, distr: spread.is_log ? 3 : 1 }, y: { range: [0, 1] } },
  axes: [across(spread.unit), axis("cumulative share", { size: 44 })],
  series: [{ label: spread.unit, value: (_, value) => digits(value) }, line("share", 0, { value: (_, value) => value == null ? absent : (value * 100).toFixed(2) + " %" })],
  hooks: { draw: [(plot) => percentileMarks(plot, spread)] },
}, [spread.cdf.map((point) => point[0]), spread.cdf.map((point) => point[1])]);
const histogram = (box, spread) => plot(box, spread.label + ": histogram", {
  scales: { x: { time: false, distr: spread.is_log ? 3 : 1 } },
  axes: [across(spread.unit), axis("count", { size: 58 })],
  series: [{ label: spread.unit, value: (_, value) => digits(value) },
    line("count", 2, { fill: () => colour("c") + "55", paths: uPlot.paths.stepped({ align: 1 }) })],
}, [spread.bins.map((bin) => bin[0]), spread.bins.map((bin) => bin[1])]);
const plotsOf = (spreads, draw) => {
  const box = make("div", { class: "plots" });
  place.append(box);
  for (const spread of spreads) draw(box, spread);
};
const distributions = (run) => {
  plotsOf(run.spreads, (box, spread) => {
    if (!spread.is_leading) cdf(box, spread);
    histogram(box, spread);
  });
};

// Percentiles as vertical lines, with their interval as a band.
const percentileMarks = (plot, spread) => {
  const { ctx } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  // Labels of neighbours would lie on each other: each has a line of its own.
  for (const [place, mark] of spread.percentiles.entries()) {
    const at = plot.valToPos(mark.value, "x", true);
    if (mark.low != null && mark.high != null) {
      const from = plot.valToPos(mark.low, "x", true), to = plot.valToPos(mark.high, "x", true);
      ctx.fillStyle = colour("b") + "33";
      ctx.fillRect(from, plot.bbox.top, Math.max(1, to - from), plot.bbox.height);
    }
    ctx.strokeStyle = colour("b");
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(at, plot.bbox.top);
    ctx.lineTo(at, plot.bbox.top + plot.bbox.height);
    ctx.stroke();
    ctx.fillStyle = colour("dim");
    ctx.font = 11 * devicePixelRatio + "px system-ui";
    const isRight = at > plot.bbox.left + plot.bbox.width * 0.9;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.fillText("p" + mark.percent, isRight ? at - 3 : at + 3, plot.bbox.top + (12 + 12 * place) * devicePixelRatio);
  }
  ctx.restore();
};

// Stages of the load behind the curves, every other one darker, each with its name as far as it fits.
const stagesBehind = (run) => ({ hooks: { drawClear: [(plot) => {
  const { ctx } = plot;
  const low = plot.scales.x.min, high = plot.scales.x.max;
  ctx.save();
  ctx.font = 11 * devicePixelRatio + "px system-ui";
  for (const [at, stage] of run.stages.entries()) {
    const from = plot.valToPos(Math.max(low, stage.begin), "x", true), to = plot.valToPos(Math.min(high, stage.end), "x", true);
    if (to <= from) continue;
    ctx.fillStyle = colour("dim") + (at % 2 ? "30" : "14");
    ctx.fillRect(from, plot.bbox.top, to - from, plot.bbox.height);
    const name = stage.name.slice(stage.name.indexOf("@") + 1);
    if (ctx.measureText(name).width + 8 > to - from) continue;
    ctx.fillStyle = colour("dim");
    ctx.textAlign = "left";
    ctx.fillText(name, from + 4, plot.bbox.top + 12 * devicePixelRatio);
  }
  ctx.restore();
}] } });

// Stages and classes, each as a run of its own.
const parts = (run) => {
  for (const one of run.parts) {
    const name = one.columns[0] === "stage" ? "Stages" : "Classes";
    heading(name);
    place.append(table(one.columns, one.rows, name));
  }
  for (const line of run.parts_lines) place.append(make("p", {}, line));
};

const overTime = (run) => {
  const box = make("div", { class: "plots" });
  place.append(box);
  const sync = { cursor: { sync: { key: run.key } }, ...(run.stages.length ? stagesBehind(run) : {}) };
  const seconds = run.windows.map((window) => window[0]);
  const column = (index) => run.windows.map((window) => window[index]);
  const time = fromZero;
  const x = { label: "s", value: (_, value) => digits(value) };
  plot(box, "Requests per second", { ...sync, scales: time, axes: [across("seconds into the run"), axis("requests/s")],
    series: [x, line("arrived", 0), line("completed", 2), line("failed", 1)] }, [seconds, column(1), column(2), column(3)]);
  plot(box, "In flight", { ...sync, scales: time, axes: [across("seconds into the run"), axis("requests")],
    series: [x, line("in flight", 0)] }, [seconds, column(4)]);
  plot(box, "Output tokens per second", { ...sync, scales: time, axes: [across("seconds into the run"), axis("tokens/s", { size: 62 })],
    series: [x, line("tokens/s", 2)] }, [seconds, column(5)]);
  for (const gauge of run.gauges) plot(box, gauge.label, { ...sync, scales: time,
    axes: [across("seconds into the run"), axis(gauge.unit, { size: 62 })], series: [x, ...gauge.series.map((name, index) => line(name, index))] },
    [gauge.at, ...gauge.values]);
};

// Parts of the time to first token: one bar, told by widths, with its legend as a table.
const split = (run) => {
  const parts = run.split.filter((part) => part.ms > 0);
  if (!parts.length) return;
  heading("Parts of the time to first token");
  // A part has the same colour on every page.
  const order = ["client queue", "connect", "sending the request", "network round trip", "server queue", "prefill", "rest in the server"];
  const look = (part) => "part" + Math.max(0, order.indexOf(part.name)) + (part.known === "inferred" ? " inferred" : "");
  const total = parts.reduce((sum, part) => sum + part.ms, 0);
  const bar = make("div", { class: "split", role: "img", "aria-label": parts.map((part) => part.name + " " + digits(part.ms) + " ms").join(", ") });
  for (const part of parts) {
    const share = part.ms / total;
    const piece = make("div", { style: "flex-grow:" + share.toFixed(4), class: "piece " + look(part),
      title: part.name + ": " + digits(part.ms) + " ms (" + part.known + ")" }, share > 0.12 ? part.name : "");
    bar.append(piece);
  }
  const rows = parts.map((part) => [
    { element: make("span", {}, make("span", { class: "swatch " + look(part) }), part.name) },
    digits(part.ms), (part.ms / total * 100).toFixed(1) + " %", { text: part.known }, { text: part.is_before ? "before sending" : "part of TTFT" }]);
  place.append(make("div", { class: "plot" }, bar), table(["mean over all requests", "ms", "share", "source", "relation to TTFT"], rows, "Parts of the time to first token"));
};

const server = (run) => {
  if (!run.server || !run.server.length) return;
  heading("Server metrics");
  place.append(table(["", "server", "client"], run.server, "Server metrics"));
};

// The engine's steps as streams show them.
const steps = (run) => {
  if (!run.steps) return;
  heading("Engine steps inferred from the streams");
  if (run.steps.refused) {
    place.append(make("p", { class: "dim" }, "Not available: " + run.steps.refused + "."));
    return;
  }
  place.append(make("p", { class: "dim" }, run.steps.remark));
  const box = make("div", { class: "plots" });
  place.append(box);
  const column = (index) => run.steps.points.map((point) => point[index]);
  const sync = { cursor: { sync: { key: run.key } } };
  const x = { label: "s", value: (_, value) => digits(value) };
  // The longest of each group lies behind the usual one, which would else be hidden.
  const spans = run.steps.is_grouped ? [line("longest", 1, { width: 1, stroke: () => colour("b") + "99" }), line("typical", 0)] : [line("duration", 0)];
  plot(box, "Duration of a step", { ...sync, scales: fromZero, axes: [across("seconds into the run"), axis("ms")],
    series: [x, ...spans] }, [column(0), ...(run.steps.is_grouped ? [column(2)] : []), column(1)]);
  plot(box, "Streams served by a step", { ...sync, scales: fromZero, axes: [across("seconds into the run"), axis("streams")],
    series: [x, line("streams", 2)] }, [column(0), column(3)]);
};

// Lanes of coloured parts, each part as from, to and its kind.
const swimLanes = (title, head, remark, kinds, lanes, names) => {
  place.append(make("p", { class: "dim" }, make("span", { class: "screen" }, "Drag to zoom in, double-click to reset. "), remark));
  const key = make("p", { class: "key" });
  for (const [name, hue] of kinds) key.append(make("span", { class: "swatch", style: "background:var(--" + hue + ")" }), name + "  ");
  const box = make("div", { class: "plots" });
  place.append(key, box);
  const rows = lanes.map((_, index) => index);
  const starts = lanes.map((lane) => lane[0][0]), ends = lanes.map((lane) => lane.reduce((most, part) => Math.max(most, part[1]), 0));
  // Lanes are sorted by their start; the last one to end is not the last one to start.
  const lastStart = starts[starts.length - 1], lastEnd = ends.reduce((most, end) => Math.max(most, end), 0);
  plot(box, title, {
    height: 420, scales: { x: { time: false, range: (_, low, high) => high >= lastStart ? [low, lastEnd] : [low, high] }, y: { range: [-1, rows.length], dir: -1 } },
    axes: [across("seconds into the run"), axis(head)],
    series: [{ label: "s", value: (_, value) => digits(value) },
      { label: head, paths: () => null, points: { show: false }, value: (_, value, __, index) => index == null ? absent : "#" + names[index] }],
    hooks: {
      draw: [(plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        const height = Math.max(1, bbox.height / (rows.length + 1) * 0.8);
        const hues = kinds.map(([, hue]) => colour(hue));
        const low = plot.scales.x.min, high = plot.scales.x.max;
        for (let index = 0; index < rows.length; index++) {
          if (ends[index] < low || starts[index] > high) continue;
          const top = plot.valToPos(index, "y", true) - height / 2;
          for (const [begin, end, kind] of lanes[index]) {
            const from = plot.valToPos(begin, "x", true), to = plot.valToPos(end, "x", true);
            if (to - from <= 0) continue;
            ctx.fillStyle = hues[kind];
            ctx.fillRect(from, top, Math.max(0.7, to - from), height);
          }
        }
        ctx.restore();
      }],
    },
  }, [starts, rows], "full");
};

// One line per request: queue, connect, waiting for the first token, tokens.
const lanes = (run) => {
  if (!run.lanes.length) return;
  heading("Requests over time");
  const kinds = [["waiting to be sent", "b"], ["connecting", "d"], ["waiting for the first token", "a"], ["receiving tokens", "c"], ["failed", "bad"]];
  swimLanes("One line per request", "request", run.lanes_remark, kinds,
    run.lanes.map((lane) => [0, 1, 2, 3].map((part) => [lane[part], lane[part + 1], lane[5] ? 4 : part])), run.lane_names);
};

// Turns by depth, and one line per session and sub-agent.
const sessions = (run) => {
  if (!run.sessions) return;
  const { text, columns, rows, depths, lanes } = run.sessions;
  heading("Sessions");
  place.append(make("p", {}, text), table(columns, rows, "Turns by depth"));
  const box = make("div", { class: "plots" });
  place.append(box);
  const column = (key) => depths.map((depth) => depth[key]);
  const x = { label: "depth", value: (_, value) => digits(value) };
  const scales = { ...fromZero, x: { time: false, distr: 3, log: 2 } };
  const points = { points: { show: true, size: 6 } };
  plot(box, "TTFT by turn depth", { scales, axes: [across("turn depth"), axis("ms")],
    series: [x, line("p50", 0, points), line("p90", 1, points)] }, [column("from"), column("ttft_ms_p50"), column("ttft_ms_p90")]);
  const percent = (key) => column(key).map((share) => share == null ? null : share * 100);
  if (depths.some((depth) => depth.cached_share != null || depth.possible_share != null)) plot(box, "Cached prompt tokens by turn depth", {
    scales: { ...scales, y: { range: [0, 100] } }, axes: [across("turn depth"), axis("% of the prompt")],
    series: [x, line("cached", 2, points), line("possible", 7, points)] }, [column("from"), percent("cached_share"), percent("possible_share")]);
  if (lanes.parts.length) swimLanes("One line per session", "session", lanes.remark,
    [["tools and users", "b"], ["this client", "d"], ["model", "a"], ["failed", "bad"]], lanes.parts, lanes.names);
};

const failures = (run) => {
  if (!run.failures.length) return;
  heading("Failures");
  place.append(table(["kind", "status", "count", "response body"],
    run.failures.map((row) => [row.kind, row.status, row.count, { text: row.example }]), "Failures"));
};

const plan = (run) => {
  heading("Plan and environment", "screen");
  place.append(button("plan.json", "Download the plan, for tokometer bench --plan", "plan.json", "application/json", () => JSON.stringify(run.plan, null, 2) + "\n"));
  for (const [title, value] of [["Plan", run.plan], ["Environment", run.environment]]) place.append(make("details", {},
    make("summary", {}, title), make("pre", {}, JSON.stringify(value, null, 2))));
};

// What was measured comes first, with marks at doubtful figures; the reasons are folded below.
const showFigures = (run, where) => {
  place.append(tiles(run));
  if (run.spreads.length) plotsOf(run.spreads.filter((spread) => spread.is_leading), cdf);
  if (run.table.rows.length) {
    heading("Figures");
    place.append(table(run.table.columns, run.table.rows, "Figures"),
      make("p", { class: "dim small" }, "Small figures are 95 % confidence intervals; \u201ctoo short\u201d: the run was too short for one. Failed requests count as infinitely slow."));
  }
  parts(run);
  trust(run.notes, affected(run));
  where();
  if (run.spreads.length) {
    heading("Distributions");
    distributions(run);
  }
  if (run.windows.length) {
    heading("Over time");
    overTime(run);
  }
  split(run);
  steps(run);
  server(run);
  sessions(run);
  lanes(run);
  failures(run);
  plan(run);
};

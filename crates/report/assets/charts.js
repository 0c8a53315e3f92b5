// Charts with one point per run, drawn as SVG: they follow the colours of page and paper, and each point can
// be reached by mouse and keyboard.
const SVG = "http://www.w3.org/2000/svg";
const redraws = [];
const draw = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) if (value != null) element.setAttribute(key, value);
  for (const child of children) if (child != null) element.append(child);
  return element;
};
const hue = (look) => "var(--" + palette[look % palette.length] + ")";
const SHAPES = ["circle", "square", "triangle", "diamond", "plus", "star"];
const polygon = (x, y, points) => "M" + points.map(([dx, dy]) => (x + dx).toFixed(1) + " " + (y + dy).toFixed(1)).join("L") + "Z";
const shapePath = (shape, x, y, r) => {
  if (shape === "square") return polygon(x, y, [[-r, -r], [r, -r], [r, r], [-r, r]]);
  if (shape === "triangle") return polygon(x, y, [[0, -r * 1.25], [r * 1.15, r * 0.85], [-r * 1.15, r * 0.85]]);
  if (shape === "down") return polygon(x, y, [[0, r * 1.25], [r * 1.15, -r * 0.85], [-r * 1.15, -r * 0.85]]);
  if (shape === "diamond") return polygon(x, y, [[0, -r * 1.35], [r * 1.35, 0], [0, r * 1.35], [-r * 1.35, 0]]);
  const t = r * 0.42;
  if (shape === "plus") return polygon(x, y, [[-t, -r], [t, -r], [t, -t], [r, -t], [r, t], [t, t], [t, r], [-t, r], [-t, t], [-r, t], [-r, -t], [-t, -t]]);
  if (shape === "cross") return polygon(x, y, [[0, -t], [r - t, -r], [r, -r + t], [t, 0], [r, r - t], [r - t, r], [0, t], [-r + t, r], [-r, r - t], [-t, 0], [-r, -r + t], [-r + t, -r]]);
  if (shape === "star") return polygon(x, y, Array.from({ length: 10 }, (_, i) => {
    const length = i % 2 ? r * 0.6 : r * 1.35, angle = Math.PI * (i / 5 - 0.5);
    return [length * Math.cos(angle), length * Math.sin(angle)];
  }));
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
};
// What a mark looks like and is called; the shape alone tells one from the other.
const MARKS = {
  met: { shape: "circle", tone: "good", words: "met" }, missed: { shape: "cross", tone: "bad", words: "missed" },
  overloaded: { shape: "down", tone: "bad", words: "overloaded" }, failed: { shape: "square", tone: "bad", words: "failed" },
  knee: { shape: "star", tone: "good", words: "best trade-off" },
  better: { shape: "triangle", tone: "good", words: "better" }, worse: { shape: "down", tone: "bad", words: "worse" },
};
// A point that cannot be trusted is hollow or pale, and has the mark of its figures beside it.
const DOUBTS = { "?": "? too few requests", "~": "~ SUSPECT", "!": "! INVALID" };
const symbol = (series, mark, x, y, r = 5, doubt = null) => {
  const known = MARKS[mark];
  const shape = known ? known.shape : SHAPES[series.look % SHAPES.length];
  const stroke = known ? "var(--" + known.tone + ")" : hue(series.look);
  const isHollow = mark === "dominated" || doubt === "!";
  return draw("path", { d: shapePath(shape, x, y, r), fill: isHollow ? "var(--card)" : stroke, "fill-opacity": doubt === "~" ? 0.35 : null, stroke, "stroke-width": 1.5, "stroke-dasharray": doubt === "!" ? "2 2" : null });
};

const evenSteps = (low, high, count) => {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.999);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return ticks;
};
const logSteps = (low, high, values) => {
  const own = [...new Set(values)].sort((a, b) => a - b);
  if (own.length <= 9 && own.every((value) => plainNumber(value).length <= 6)) return own;
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) for (const factor of [1, 2, 5]) {
    const at = factor * 10 ** power;
    if (at >= low && at <= high) ticks.push(at);
  }
  return ticks.length > 9 ? ticks.filter((at) => Math.abs(Math.log10(at) % 1) < 1e-6) : ticks;
};
const dateText = (seconds, span) => {
  const text = new Date(seconds * 1000).toISOString();
  return span > 2 * 86400 ? text.slice(0, 10) : span > 0 && span < 600 ? text.slice(11, 19) : text.slice(5, 16).replace("T", " ");
};
// Places of values between `from` and `to` pixels, with the ticks of the axis.
const scaleOf = (axis, values, from, to, count) => {
  const finite = values.filter((value) => value != null && isFinite(value));
  let low = Math.min(...finite), high = Math.max(...finite);
  if (!finite.length) [low, high] = [0, 1];
  const kind = axis.scale;
  if (kind === "words") [low, high] = [-0.5, axis.words.length - 0.5];
  else if (kind === "log") [low, high] = [low / 1.2, high * 1.2];
  else if (kind === "linear") [low, high] = [Math.min(0, low), high > 0 ? high * 1.08 : 1];
  else {
    // An axis that fits a change of one percent would make it look like a collapse.
    const least = kind === "time" ? 0 : Math.abs(high) * 0.2 - (high - low);
    const pad = Math.max((high - low) * 0.08, least / 2) || Math.abs(high) * 0.05 || 1;
    [low, high] = [low - pad, high + pad];
  }
  const measure = kind === "log" ? Math.log : (value) => value;
  const at = (value) => from + (measure(value) - measure(low)) / (measure(high) - measure(low)) * (to - from);
  const ticks = kind === "words" ? axis.words.map((_, index) => index)
    : kind === "log" ? logSteps(low, high, finite) : evenSteps(low, high, count);
  const text = kind === "words" ? (value) => axis.words[value].length > 16 ? axis.words[value].slice(0, 15) + "\u2026" : axis.words[value]
    : kind === "time" ? (value) => dateText(value, high - low) : plainNumber;
  return { at, ticks: ticks.map((value) => ({ at: at(value), text: text(value) })), low, high };
};
const axisText = (axis, value) => axis.scale === "words" ? axis.words[value] : axis.scale === "time" ? dateText(value, 0) + " UTC" : digits(value);

// A frame with grid and axes. Returns the scales and the group to draw in.
const frame = (width, height, chart, xs, ys) => {
  const y = scaleOf(chart.y, ys, 0, 1, 5);
  const left = 24 + Math.max(...y.ticks.map((tick) => tick.text.length), 1) * 6.6;
  const box = { left, right: width - 14, top: 12, bottom: height - 42 };
  const scales = { x: scaleOf(chart.x, xs, box.left + 6, box.right - 6, Math.max(2, Math.floor((box.right - box.left) / 90))), y: scaleOf(chart.y, ys, box.bottom, box.top, 5) };
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": chart.title });
  for (const tick of scales.y.ticks) picture.append(draw("line", { x1: box.left, x2: box.right, y1: tick.at, y2: tick.at, class: "grid" }),
    draw("text", { x: box.left - 6, y: tick.at + 4, "text-anchor": "end" }, tick.text));
  let free = -Infinity;
  for (const tick of scales.x.ticks) {
    picture.append(draw("line", { x1: tick.at, x2: tick.at, y1: box.bottom, y2: box.bottom + 4, class: "grid" }));
    const half = tick.text.length * 3.2;
    if (tick.at - half < free) continue;
    free = tick.at + half + 8;
    picture.append(draw("text", { x: tick.at, y: box.bottom + 17, "text-anchor": tick.at + half > width ? "end" : "middle" }, tick.text));
  }
  picture.append(draw("text", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle", class: "label" }, chart.x.label),
    draw("text", { x: 12, y: (box.top + box.bottom) / 2, "text-anchor": "middle", class: "label", transform: `rotate(-90 12 ${(box.top + box.bottom) / 2})` }, chart.y.label),
    draw("path", { d: `M${box.left} ${box.top}V${box.bottom}H${box.right}`, class: "axis" }));
  return { picture, scales, box };
};

// What a point says: its values, its run's plan, and where a click leads.
const pointLines = (chart, series, point) => {
  const lines = [series.name, chart.x.label + ": " + axisText(chart.x, point.x), chart.y.label + ": " + digits(point.y)];
  if (point.low != null || point.high != null) lines.push("95 % CI: " + digits(point.low) + " to " + digits(point.high));
  const mark = MARKS[point.mark];
  if (mark) lines.push(mark.words);
  if (point.mark === "dominated") lines.push("beaten by another point");
  if (point.doubt) lines.push(DOUBTS[point.doubt]);
  if (point.text) lines.push(point.text);
  const card = data.cards[point.run];
  return card ? [card.name, ...lines, ...card.lines] : lines;
};
const tip = (card) => {
  const box = make("div", { class: "tip", "aria-hidden": "true" });
  box.hidden = true;
  card.append(box);
  const hide = () => { box.hidden = true; };
  card.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  const show = (lines, x, y) => {
    box.replaceChildren(...lines.map((line, index) => make("div", index === 0 ? { class: "first" } : {}, line)));
    box.hidden = false;
    const left = Math.min(Math.max(4, x - box.offsetWidth / 2), card.clientWidth - box.offsetWidth - 4);
    box.style.left = Math.max(4, left) + "px";
    box.style.top = (y - box.offsetHeight - 14 > 0 ? y - box.offsetHeight - 14 : y + 16) + "px";
  };
  return { show, hide };
};

const drawLimits = (chart, { picture, scales, box }) => {
  for (const band of chart.bands) {
    const scale = scales[band.of];
    const from = band.low == null ? (band.of === "x" ? box.left : box.bottom) : scale.at(band.low);
    const to = band.high == null ? (band.of === "x" ? box.right : box.top) : scale.at(band.high);
    const size = band.of === "x" ? { x: Math.min(from, to), width: Math.max(1, Math.abs(to - from)), y: box.top, height: box.bottom - box.top }
      : { y: Math.min(from, to), height: Math.max(1, Math.abs(to - from)), x: box.left, width: box.right - box.left };
    picture.append(draw("rect", { ...size, class: "band" }, draw("title", {}, band.label)));
  }
  for (const limit of chart.limits) {
    const at = scales[limit.of].at(limit.at);
    const ends = limit.of === "x" ? { x1: at, x2: at, y1: box.top, y2: box.bottom } : { x1: box.left, x2: box.right, y1: at, y2: at };
    const isRight = at > (box.left + box.right) / 2;
    // On the left, where loads are low: the points at a limit lie on the right.
    const text = limit.of === "x" ? { x: isRight ? at - 4 : at + 4, y: box.top + 10, "text-anchor": isRight ? "end" : "start" } : { x: box.left + 4, y: at - 4 < box.top + 8 ? at + 12 : at - 4, "text-anchor": "start" };
    picture.append(draw("line", { ...ends, class: "limit" }), draw("text", { ...text, class: "limit-text" }, limit.label));
  }
};
const drawSeries = (chart, series, { picture, scales }, card, said) => {
  const onLine = series.points.filter((point) => point.mark !== "dominated" && point.doubt !== "!");
  if (series.is_line && onLine.length > 1) picture.append(draw("path", { d: "M" + onLine.map((point) => scales.x.at(point.x).toFixed(1) + " " + scales.y.at(point.y).toFixed(1)).join("L"),
    fill: "none", stroke: hue(series.look), "stroke-width": 1.6, "stroke-dasharray": ["", "6 3", "2 3", "8 3 2 3"][Math.floor(series.look / 2) % 4] || null }));
  for (const point of series.points) {
    const x = scales.x.at(point.x), y = scales.y.at(point.y);
    if (point.low != null && point.high != null) picture.append(draw("path", { d: `M${x} ${scales.y.at(point.low)}V${scales.y.at(point.high)}M${x - 3} ${scales.y.at(point.low)}h6M${x - 3} ${scales.y.at(point.high)}h6`, stroke: hue(series.look), "stroke-width": 1, fill: "none", opacity: 0.75 }));
    const lines = pointLines(chart, series, point);
    const link = draw("a", { class: "point", "aria-label": lines.join(", "), ...(point.run == null ? { tabindex: 0, role: "img" } : { href: "#run-" + point.run }) },
      draw("circle", { cx: x, cy: y, r: 11, fill: "transparent" }), symbol(series, point.mark, x, y, 5, point.doubt),
      point.doubt ? draw("text", { x: x + 7, y: y - 6, class: "doubt" }, point.doubt) : null);
    for (const kind of ["mouseenter", "focus"]) link.addEventListener(kind, () => said.show(lines, x + 10, y + (card.querySelector(".canvas").offsetTop || 0)));
    for (const kind of ["mouseleave", "blur"]) link.addEventListener(kind, said.hide);
    link.addEventListener("click", (event) => { if (point.run != null && showRun(point.run)) event.preventDefault(); });
    picture.append(link);
  }
};

const legend = (chart, hidden, redraw) => {
  const box = make("div", { class: "legend" });
  const swatch = (series, mark) => draw("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, symbol(series, mark, 7, 7, 4.5));
  const marks = [...new Set(chart.series.flatMap((series) => series.points.map((point) => point.mark)))].filter((mark) => MARKS[mark]);
  // Where every point has a mark of its own, the shape of the series is on none of them.
  const isMarked = chart.series.every((series) => series.points.every((point) => MARKS[point.mark]));
  if (!isMarked) for (const [index, series] of chart.series.entries()) {
    const entry = make("button", { type: "button", "aria-pressed": "true", title: "Show or hide" }, swatch(series, "plain"), series.name);
    entry.addEventListener("click", () => {
      hidden.has(index) ? hidden.delete(index) : hidden.add(index);
      entry.setAttribute("aria-pressed", String(!hidden.has(index)));
      redraw();
    });
    box.append(entry);
  }
  for (const mark of marks) box.append(make("span", {}, swatch(chart.series[0], mark), MARKS[mark].words));
  const doubts = Object.keys(DOUBTS).filter((doubt) => chart.series.some((series) => series.points.some((point) => point.doubt === doubt)));
  for (const doubt of doubts) box.append(make("span", { class: "dim" }, DOUBTS[doubt]));
  for (const band of chart.bands) box.append(make("span", {}, make("span", { class: "swatch band" }), band.label));
  return box;
};

const pointChart = (parent, chart) => {
  const card = make("figure", { class: "plot chart", "aria-label": chart.title }, make("h3", {}, chart.title));
  if (chart.remark) card.append(make("p", { class: "dim small" }, chart.remark));
  const canvas = make("div", { class: "canvas" });
  const hidden = new Set();
  const said = tip(card);
  const render = () => {
    const shown = chart.series.filter((_, index) => !hidden.has(index));
    const of = (key) => shown.flatMap((series) => series.points.flatMap((point) => [point[key], ...(key === "y" ? [point.low, point.high] : [])])).filter((value) => value != null);
    const limits = (name) => [...chart.limits.filter((limit) => limit.of === name).map((limit) => limit.at),
      ...chart.bands.filter((band) => band.of === name).flatMap((band) => [band.low, band.high])].filter((value) => value != null);
    const parts = frame(Math.max(260, card.clientWidth - 22), 280, chart, [...of("x"), ...limits("x")], [...of("y"), ...limits("y")]);
    drawLimits(chart, parts);
    for (const series of shown) drawSeries(chart, series, parts, card, said);
    canvas.replaceChildren(parts.picture);
  };
  card.append(canvas, legend(chart, hidden, render), dataTable(
    ["series", chart.x.label, chart.y.label, "95 % CI from", "to", "remark", "run"],
    () => chart.series.flatMap((series) => series.points.map((point) => [{ text: series.name }, axisText(chart.x, point.x), point.y, point.low, point.high,
      { text: [MARKS[point.mark] && MARKS[point.mark].words, DOUBTS[point.doubt], point.mark === "dominated" ? "beaten" : "", point.text].filter(Boolean).join("; ") },
      point.run == null ? null : { run: point.run, text: (data.cards[point.run] || {}).name || "run" }])), chart.title));
  parent.append(card);
  render();
  redraws.push(render);
};

// One line per figure: the change with its interval, against no change. Verdicts have a sign, a word and a colour.
const SIGNS = { better: "\u25b2", worse: "\u25bc", negligible: "\u2248", same: "=", open: "?" };
const differenceChart = (parent, differences) => {
  const bars = differences.bars;
  const card = make("figure", { class: "plot full", "aria-label": "Differences of b from a, with 95 % confidence intervals" }, make("h3", {}, "Change from a to b, with 95 % confidence intervals"));
  const canvas = make("div", { class: "canvas" });
  const render = () => {
    const width = Math.max(300, card.clientWidth - 22), row = 26, isNarrow = width < 560;
    const name = Math.min(width * 0.34, 8 + 6.6 * Math.max(...bars.map((bar) => bar.figure.length))), words = isNarrow ? 26 : 158;
    const ends = bars.flatMap((bar) => [bar.low, bar.high, bar.change]).filter((value) => value != null && isFinite(value));
    // A wide interval must not squeeze all others: beyond twice the width of most it is cut, with an arrow.
    const sizes = ends.map(Math.abs).sort((a, b) => a - b);
    const most = Math.max(2 * differences.margin, Math.min(sizes[sizes.length - 1] || 0, 2 * (sizes[Math.floor(sizes.length * 0.75)] || 0)) * 1.08, 0.01);
    const left = name + 8, right = width - words, height = bars.length * row + 44;
    const at = (share) => left + (Math.max(-most, Math.min(most, share)) + most) / (2 * most) * (right - left);
    const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": bars.map((bar) => bar.figure + ": " + bar.words).join("; ") });
    picture.append(draw("rect", { x: at(-differences.margin), width: at(differences.margin) - at(-differences.margin), y: 4, height: bars.length * row + 4, class: "band" }));
    const steps = (count) => evenSteps(-most * 100, most * 100, count);
    const ticks = steps(Math.max(2, Math.floor((right - left) / 80)));
    for (const tick of ticks.length < 3 ? steps(4) : ticks) picture.append(
      draw("line", { x1: at(tick / 100), x2: at(tick / 100), y1: 4, y2: bars.length * row + 8, class: tick === 0 ? "axis" : "grid" }),
      draw("text", { x: at(tick / 100), y: bars.length * row + 22, "text-anchor": "middle" }, (tick > 0 ? "+" : "") + plainNumber(tick) + " %"));
    picture.append(draw("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle", class: "label" }, isNarrow ? "change; band: negligible" : "change of b against a; the band is negligible"));
    bars.forEach((bar, index) => {
      const y = 4 + row * index + row / 2, tone = "tone-" + bar.verdict;
      const shown = bar.figure.length * 6.6 > name ? bar.figure.slice(0, Math.floor(name / 6.6) - 1) + "\u2026" : bar.figure;
      picture.append(draw("text", { x: name, y: y + 4, "text-anchor": "end", class: "ink" }, shown));
      if (bar.low != null && bar.high != null) {
        picture.append(draw("path", { d: `M${at(bar.low)} ${y}H${at(bar.high)}`, class: "bar " + tone }));
        if (bar.low < -most) picture.append(draw("path", { d: `M${left + 7} ${y - 5}L${left} ${y}L${left + 7} ${y + 5}`, class: "bar " + tone, fill: "none" }));
        if (bar.high > most) picture.append(draw("path", { d: `M${right - 7} ${y - 5}L${right} ${y}L${right - 7} ${y + 5}`, class: "bar " + tone, fill: "none" }));
      }
      if (isFinite(bar.change)) picture.append(draw("circle", { cx: at(bar.change), cy: y, r: 4, class: "dot " + tone }));
      picture.append(draw("text", { x: right + 8, y: y + 4, class: "words " + tone }, SIGNS[bar.verdict] + (isNarrow ? "" : " " + bar.words)));
    });
    canvas.replaceChildren(picture);
  };
  card.append(canvas);
  parent.append(card);
  render();
  redraws.push(render);
};

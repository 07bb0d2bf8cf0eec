// SVG plots: fitness over time for several genes, and a sparkline for a row of the table.

import { day, decimal, make, svg } from "../assets/dom.js";

const HEIGHT = 300;
const MARGIN = { left: 46, right: 30, top: 14, bottom: 34 };

/** The history of a gene as the API has it, oldest first. */
export const historyOf = (entries) => entries
  .map((entry) => ({ time: Date.parse(entry.evaluated_at), fitness: entry.fitness_value, calls: entry.total_calls }))
  .reverse();

/** Draws one line for each gene; `series` has `name` and `history`, oldest first. */
export function drawHistory(container, series) {
  if (!series.length) {
    container.replaceChildren(make("p", { class: "soft" }, "No evaluations to show."));
    return;
  }
  const width = Math.max(260, Math.floor(container.clientWidth));
  const points = series.flatMap((one) => one.history);
  const x = scale(range(points.map((p) => p.time), 3_600_000), [MARGIN.left, width - MARGIN.right]);
  const ticks = niceTicks(...range(points.map((p) => p.fitness), 0.01), 5);
  const y = scale([ticks[0], ticks.at(-1)], [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const names = series.map((one) => one.name).join(", ");
  container.replaceChildren(svg("svg", {
    class: "history", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img",
    "aria-label": `Line plot of fitness over time for ${names}. The table below has the numbers.`,
  }, grid(ticks, x, y, width), series.length > 1 && labels(series, y, width), series.map((one, index) => line(one, index + 1, x, y))));
}

function grid(ticks, x, y, width) {
  const digits = ticks[1] - ticks[0] < 0.01 ? 3 : 2;
  const rows = ticks.map((tick) => [
    svg("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
    svg("text", { class: "tick", x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, decimal(tick, digits)),
  ]);
  const [first, last] = x.domain;
  const steps = Math.max(1, Math.min(5, Math.floor((width - MARGIN.left - MARGIN.right) / 90)));
  const days = Array.from({ length: steps + 1 }, (_, step) => first + ((last - first) * step) / steps);
  const columns = days.map((time) =>
    svg("text", { class: "tick", x: x(time), y: HEIGHT - 10, "text-anchor": "middle" }, day(time)));
  return svg("g", {}, rows, columns);
}

/** The number of each line at its end; numbers that would overlap are moved apart. */
function labels(series, y, width) {
  const ends = series.map((one, index) => ({ number: index + 1, y: y(one.history.at(-1).fitness) }));
  ends.sort((a, b) => a.y - b.y);
  for (let i = 1; i < ends.length; i += 1) ends[i].y = Math.max(ends[i].y, ends[i - 1].y + 14);
  const over = Math.max(0, (ends.at(-1)?.y ?? 0) - (HEIGHT - MARGIN.bottom));
  return svg("g", {}, ends.map(({ number, y: end }) =>
    svg("text", { class: `end s${number}`, x: width - MARGIN.right + 12, y: end - over + 4 }, String(number))));
}

function line(one, number, x, y) {
  const path = one.history.map((p, i) => `${i ? "L" : "M"}${x(p.time).toFixed(1)} ${y(p.fitness).toFixed(1)}`);
  return svg("g", { class: `line s${number}` },
    svg("path", { d: path.join(" ") }),
    one.history.map((p) =>
      svg("circle", { cx: x(p.time).toFixed(1), cy: y(p.fitness).toFixed(1), r: 3.5 },
        svg("title", {}, `${one.name}: ${decimal(p.fitness)} on ${day(p.time)}, ${p.calls} calls`))));
}

export function historyTable(series) {
  const rows = series.flatMap((one) => [...one.history].reverse().map((p) =>
    make("tr", {}, make("th", { scope: "row" }, one.name),
      make("td", {}, new Date(p.time).toISOString().slice(0, 10)),
      make("td", { class: "number" }, decimal(p.fitness)),
      make("td", { class: "number" }, String(p.calls)))));
  const head = ["Gene", "Day", "Fitness", "Calls"].map((name, i) =>
    make("th", { scope: "col", class: i > 1 ? "number" : "" }, name));
  return make("table", {}, make("caption", { class: "visually-hidden" }, "Evaluations, newest first"),
    make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows));
}

/** The history of a row, newest entry first as in the API. */
export function sparkline(history) {
  if (history.length < 2) return make("span", { class: "soft small" }, history.length ? "one evaluation" : "none yet");
  const [width, height] = [96, 26];
  const values = history.map((entry) => entry.fitness_value).reverse();
  const x = scale([0, values.length - 1], [3, width - 5]);
  const y = scale(range(values, 0.01), [height - 4, 4]);
  const path = values.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join(" ");
  return svg("svg", {
    class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${values.length} evaluations, from ${decimal(values[0])} to ${decimal(values.at(-1))}`,
  }, svg("path", { d: path }), svg("circle", { cx: x(values.length - 1), cy: y(values.at(-1)), r: 3 }));
}

function scale([from, to], [start, end]) {
  const factor = (end - start) / (to - from || 1);
  const at = (value) => start + (value - from) * factor;
  at.domain = [from, to];
  return at;
}

/** The smallest and largest value, at least `min` apart. */
function range(values, min) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high - low < min ? [low - min / 2, high + min / 2] : [low, high];
}

/** Round values that span the range. */
function niceTicks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((nice) => nice >= rough);
  const first = Math.max(0, Math.floor(low / step + 1e-9));
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

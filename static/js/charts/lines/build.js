// Pure: from what is held of one name to the columns and lines that a plot draws.
import { put } from "./attempts.js";
import { join } from "./grid.js";
import { byGroup, byRun } from "./members.js";
import { rangeWithoutOutliers } from "./outliers.js";
import { smooth } from "./smooth.js";
import { extent, plottable } from "./values.js";

/** @typedef {(kind: ColumnKind, key: string, x: Column, y: Column) => unknown} Add */

// entry: {lines: Map(key -> {run, labels, parts, tails})} options: axis: "step", "relative" (seconds since the run's
// start) or "time" (Unix seconds); smoothing: {kind, amount}; isLogX, isLogY; ignoreOutliers; ranks: "lines" or
// "band"; starts: Map(run -> Unix seconds); group: null or {of: Map(run -> text), band: "minmax", "sd" or "ci"};
// hidden: a Set of runs that are left out; width: in pixels; view: [from, to] of x that is seen, or null. Returns x;
// ys, one column for each of `columns`, [{kind, key}], kind: main, raw (what was smoothed), ghost (an older
// attempt's), low and high (a band's, in this order); lines: Map(key -> {run, labels, group, runs, last, min, max,
// count}); marks: [{x, run, attempt}], where attempts began; bad: [{x, value}], what is no number; range: {low, high}
// of y, or null.
/** @param {Pick<Entry, "lines">} entry @param {BuildOptions} [options] @returns {BuiltChart} */
export function build(entry, options = {}) {
  const lines = shown(entry, options);
  /** @type {DrawnColumn[]} */
  const drawn = [];
  /** @type {Add} */
  const add = (kind, key, x, y) => x.length && drawn.push({ kind, key, x, y });
  const range = rangeOf(lines);
  for (const line of lines) draw(line, options, range, add);
  const columns = drawn.map(({ kind, key }) => ({ kind, key }));
  return {
    ...join(drawn, options),
    columns,
    lines: new Map(lines.map((line) => [line.key, described(line)])),
    marks: marksOf(lines),
    bad: lines.flatMap(({ bad }) => bad),
    range: options.ignoreOutliers ? rangeOfMost(drawn, options) : null,
  };
}

/** @param {Pick<Entry, "lines">} entry @param {BuildOptions} options */
function shown(entry, options) {
  const { axis = "step", isLogX = false, starts, hidden, group, ranks } = options;
  /** @type {DrawnLine[]} */
  const lines = [];
  for (const [key, line] of entry.lines) {
    const { run, labels } = line;
    if (hidden?.has(run)) continue;
    const whole = put(line, { axis, isLogX, start: starts?.get(run) ?? 0 });
    const extremes = extent(whole.min ?? whole.value, whole.max ?? whole.value);
    lines.push({ key, run, labels, group: null, runs: [run], ...whole, extremes });
  }
  if (group) return byGroup(lines, group, options);
  return ranks === "band" ? byRun(lines, options) : lines;
}

/** @param {DrawnLine} line @param {BuildOptions} options @param {number} range @param {Add} add */
function draw({ key, x, value, min, max, ghosts }, { isLogY, smoothing }, range, add) {
  const clean = plottable(value, isLogY);
  if (min && max) {
    add("low", key, x, plottable(min, isLogY));
    add("high", key, x, plottable(max, isLogY));
  }
  const smoothed = smoothing ? smooth(x, clean, smoothing, range) : clean;
  const raw = smoothed !== clean && rawOf(clean, min, max);
  if (raw) add("raw", key, x, raw);
  add("main", key, x, smoothed);
  for (const ghost of ghosts) add("ghost", key, ghost.x, plottable(ghost.value, isLogY));
}

// What was smoothed. Among buckets only the single points: elsewhere the band is shadow enough.
/** @param {Column} value @param {Column | null} min @param {Column | null} max */
function rawOf(value, min, max) {
  if (!min || !max) return value;
  const num = min.reduce((sum, low, at) => sum + Number(low === max[at]), 0);
  const raw = value.map((one, at) => (min[at] === max[at] ? one : NaN));
  return num > 1 ? raw : null;
}

/** How far x reaches over all lines, so that all are smoothed alike. @param {DrawnLine[]} lines */
function rangeOf(lines) {
  const all = lines.filter(({ x }) => x.length);
  return all.length ? Math.max(...all.map(({ x }) => x[x.length - 1])) - Math.min(...all.map(({ x }) => x[0])) : 0;
}

/** @param {DrawnColumn[]} drawn @param {BuildOptions} options */
function rangeOfMost(drawn, { isLogY, view }) {
  /** @param {DrawnColumn} column */
  const seen = ({ x, y }) => (view ? y.filter((_, at) => x[at] >= view[0] && x[at] <= view[1]) : y);
  return rangeWithoutOutliers(drawn.filter(({ kind }) => kind === "main").map(seen), isLogY);
}

/** @param {DrawnLine} line @returns {LineFacts} */
function described({ run, labels, group, runs, last, extremes, count, reach }) {
  return {
    run,
    labels,
    group,
    runs,
    last: last ?? null,
    min: extremes?.min ?? null,
    max: extremes?.max ?? null,
    count,
    ...(group !== null && { reach }),
  };
}

/** Where an attempt of a run began: where the first of its lines has a point of it. @param {DrawnLine[]} lines */
function marksOf(lines) {
  /** @type {Map<string, Mark>} */
  const found = new Map();
  for (const line of lines) {
    for (const { attempt, x, run = line.run } of line.begins) {
      const key = `${run} ${attempt}`;
      if (!found.has(key) || x < (found.get(key)?.x ?? Infinity)) found.set(key, { x, run, attempt });
    }
  }
  return [...found.values()];
}

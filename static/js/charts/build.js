// Pure: from the parts of a series to the columns and lines that a plot draws.
// Newest attempt wins: where a later attempt trained a step again, the old tail is a line of its own, drawn faint.
import { concat, joined, rising, slice } from "./parts.js";
import { extent, join, plottable, smooth } from "./shaping.js";

// Returns {x, columns: [{kind, key}], ys, marks: [{x, attempt}], bad: [x], last: Map(key -> value), extremes: Map(key -> {min, max})}; kind is main, raw, ghost, low, high.
export function build(entry, { axis = "step", smoothing = 0, isLog = false, start = 0 }) {
  const tables = [];
  const columns = [];
  const marks = new Map();
  const bad = [];
  const last = new Map();
  const extremes = new Map();
  const add = (kind, key, x, y) => {
    if (!x.length) return;
    tables.push({ x, y });
    columns.push({ kind, key });
  };
  for (const [key, line] of entry.lines) {
    const { main, ghosts } = split(line, axis, start, marks);
    if (main.x.length) last.set(key, (main.last ?? main.value).at(-1));
    const found = extent(main.min ?? main.value, main.max ?? main.value);
    if (found) extremes.set(key, found);
    main.value.forEach((value, at) => Number.isFinite(value) || main.rests.has(at) || bad.push(main.x[at]));
    const clean = plottable(main.value, isLog);
    if (main.min) {
      add("low", key, main.x, plottable(main.min, isLog));
      add("high", key, main.x, plottable(main.max, isLog));
    }
    if (smoothing > 0 && clean.length > 2) {
      if (!main.min) add("raw", key, main.x, clean); // a band is shadow enough
      add("main", key, main.x, smooth(main.x, clean, smoothing));
    } else {
      add("main", key, main.x, clean);
    }
    for (const ghost of ghosts) add("ghost", key, ghost.x, plottable(ghost.value, isLog));
  }
  return { ...join(tables), columns, marks: [...marks].map(([attempt, x]) => ({ attempt, x })), bad, last, extremes };
}

// The line as drawn, and what it hides; notes in marks where each attempt but the first begins.
function split({ parts, tails = new Map() }, axis, start, marks) {
  const pieces = [];
  const ghosts = [];
  let limit = Infinity; // the first step that a later attempt trained again
  for (const attempt of [...new Set([...parts.keys(), ...tails.keys()])].sort((a, b) => b - a)) {
    const tail = tails.get(attempt);
    // Over time nothing is hidden: there attempts lie one behind the other.
    const part = parts.has(attempt) || axis === "time" ? rising(axis === "time" ? joined(parts.get(attempt), tail) : parts.get(attempt)) : null;
    let cut = part?.step.length ?? 0;
    if (axis === "step") while (cut > 0 && part.step[cut - 1] >= limit) cut -= 1;
    const isHidden = axis === "step" && (tail?.step.length || cut < (part?.step.length ?? 0));
    if (isHidden) {
      const old = joined(part && slice(part, Math.max(0, cut - 1)), tail && rising(tail)); // from the last point that is shown
      ghosts.unshift({ x: old.step, value: old.value });
    }
    if (part) pieces.unshift({ attempt, part: cut < part.step.length ? slice(part, 0, cut) : part, first: along(part, axis, start)[0] });
    limit = Math.min(limit, part?.step[0] ?? Infinity, tail?.step[0] ?? Infinity);
  }
  pieces.forEach(({ attempt, first }, index) => index > 0 && first !== undefined && marks.set(attempt, Math.min(marks.get(attempt) ?? Infinity, first)));
  return { main: whole(pieces.map(({ part }) => part).filter(({ step }) => step.length), axis, start), ghosts };
}

// All parts as one line. Between two attempts nothing was trained: on a time axis that is a gap, at one of the `rests`.
function whole(parts, axis, start) {
  const hasBands = parts.some(({ min }) => min);
  const gather = (column) => concat(rested(parts.map(column), axis === "time" ? [NaN] : []));
  const band = (name) => (hasBands ? gather((part) => part[name] ?? part.value) : null);
  const xs = parts.map((part) => along(part, axis, start));
  const rests = new Set();
  let length = 0;
  for (const x of axis === "time" ? xs.slice(0, -1) : []) rests.add((length += x.length + 1) - 1);
  const between = (before, after) => [(before.at(-1) + after[0]) / 2];
  const x = concat(axis === "time" ? xs.flatMap((one, index) => (index ? [between(xs[index - 1], one), one] : [one])) : xs);
  return { x, value: gather((part) => part.value), min: band("min"), max: band("max"), last: band("last"), rests };
}

function rested(columns, rest) {
  return columns.flatMap((column, index) => (index ? [rest, column] : [column]));
}

function along(part, axis, start) {
  return axis === "step" ? part.step : part.time.map((time) => time - start);
}

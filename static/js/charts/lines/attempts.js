// Pure: the parts of one line put together along an axis. Where a later attempt trained a step again the newest wins,
// and what is hidden by it is a line of its own, the ghost.

import { concat, isRising, joined, slice, taken } from "../data/parts.js";
import { lowerBound, upperBound } from "../scales/views.js";
import { broken, gapsIn } from "./gaps.js";

/** @typedef {Part & {x: Column}} AlongAxis */
/** @typedef {ReturnType<typeof broken>} Gapped */

const TICK_S = 1e-6; // between points of one moment

// Returns {x, value, min, max, ghosts: [{x, value}], begins: [{x, attempt}], bad: [{x, value}], last, count}; NaN is a
// gap.
/** @param {{parts: Map<number, Part>, tails?: Map<number, Part>}} line
 * @param {{axis: Axis, start?: number, isLogX?: boolean}} options @returns {WholeLine} */
export function put(line, { axis, start = 0, isLogX = false }) {
  const isStep = axis === "step";
  const { parts, tails = new Map() } = line;
  /** @type {(AlongAxis & {attempt: number})[]} */
  const pieces = [];
  /** @type {Points[]} */
  const ghosts = [];
  let limit = Infinity; // where a later attempt begins
  for (const attempt of [...new Set([...parts.keys(), ...tails.keys()])].sort((a, b) => b - a)) {
    const [part, tail] = [parts.get(attempt), tails.get(attempt)];
    // Over time nothing was trained twice: there attempts lie one behind the other.
    const shown = along(isStep ? part : joined(part, tail), axis, start, isLogX);
    const rest = isStep ? along(tail, axis, start, isLogX) : null;
    const cut = shown ? lowerBound(shown.x, limit) : 0;
    const isCut = shown && cut < shown.x.length;
    const hidden = joinedAlong(isCut ? shown : null, rest, shown, cut);
    if (hidden) ghosts.unshift(hidden);
    const piece = isCut ? { ...slice(shown, 0, cut), x: shown.x.subarray(0, cut) } : shown;
    if (piece && cut > 0) pieces.unshift({ attempt, ...piece });
    limit = Math.min(limit, shown?.x[0] ?? Infinity, rest?.x[0] ?? Infinity);
  }
  return { ...whole(pieces, isStep), ghosts };
}

// The part along the axis: x rises strictly.
/** @param {Part | undefined} part @param {Axis} axis @param {number} start @param {boolean} isLogX
 * @returns {AlongAxis | null} */
function along(part, axis, start, isLogX) {
  if (!part?.step.length) return null;
  const sorted = axis === "step" ? rising(part) : timely(part);
  const times = axis === "relative" ? sorted.time.map((time) => time - start) : sorted.time;
  const x = axis === "step" ? sorted.step : distinct(times);
  const first = isLogX ? upperBound(x, 0) : 0; // a logarithmic axis begins behind zero
  return first === x.length ? null : first ? { ...slice(sorted, first), x: x.subarray(first) } : { ...sorted, x };
}

// Points may arrive late and out of order; a plot needs its steps rising, one value each (the last that came).
/** @param {Part} part */
export function rising(part) {
  const { step, time } = part;
  if (isRising(step)) return part;
  const order = Array.from(step.keys()).sort((a, b) => step[a] - step[b] || time[a] - time[b]);
  const kept = order.filter((at, place) => place === order.length - 1 || step[order[place + 1]] !== step[at]);
  return taken(part, kept);
}

/** A clock may go back. @param {Part} part */
function timely(part) {
  const { time } = part;
  if (time.every((one, at) => !at || one >= time[at - 1])) return part;
  const order = Array.from(time.keys()).sort((a, b) => time[a] - time[b] || a - b);
  return taken(part, order);
}

/** Many points may be of one moment: each is drawn, a hair behind the one before. @param {Column} times */
function distinct(times) {
  if (isRising(times)) return times;
  const x = times.slice();
  for (let at = 1; at < x.length; at += 1) if (!(x[at] > x[at - 1])) x[at] = x[at - 1] + TICK_S;
  return x;
}

// What is hidden, from the last point that is shown on.
/** @param {AlongAxis | null} old @param {AlongAxis | null} rest @param {AlongAxis | null} shown @param {number} cut */
function joinedAlong(old, rest, shown, cut) {
  if (!old && !rest) return null;
  const from = Math.max(0, cut - 1);
  const pieces = [shown && { x: shown.x.subarray(from), value: shown.value.subarray(from) }, rest].filter(
    (one) => one !== null,
  );
  const x = concat(pieces.map((piece) => piece.x));
  const value = concat(pieces.map((piece) => piece.value));
  if (isRising(x)) return { x, value };
  const order = Array.from(x.keys())
    .sort((a, b) => x[a] - x[b])
    .filter((at, place, all) => place === all.length - 1 || x[all[place + 1]] !== x[at]);
  return { x: Float64Array.from(order, (at) => x[at]), value: Float64Array.from(order, (at) => value[at]) };
}

// All pieces as one line. Between two attempts nothing was trained: on a time axis that is a gap.
/** @param {(AlongAxis & {attempt: number})[]} pieces @param {boolean} isStep */
function whole(pieces, isStep) {
  const bad = pieces.flatMap(badIn);
  const last = pieces.at(-1);
  const gapped = pieces.map((piece) => broken(piece, gapsIn(piece.x, piece.seams)));
  const hasBand = pieces.some(({ min }) => min);
  /** @param {(piece: Gapped) => Column} column @param {(one: Gapped, other: Gapped) => number} between */
  const gather = (column, between) => {
    const columns = gapped.map((piece, at) =>
      at && !isStep ? [[between(gapped[at - 1], piece)], column(piece)] : [column(piece)],
    );
    return concat(columns.flat());
  };
  /** @param {Gapped} one @param {Gapped} other */
  const middle = (one, other) => (one.x[one.x.length - 1] + other.x[0]) / 2;
  const nothing = () => NaN;
  /** @param {"value" | "min" | "max"} name */
  const values = (name) => gather((piece) => piece[name] ?? piece.value, nothing);
  return {
    x: gather(({ x }) => x, middle),
    value: values("value"),
    min: hasBand ? values("min") : null,
    max: hasBand ? values("max") : null,
    begins: pieces.slice(1).map(({ attempt, x }) => ({ attempt, x: x[0] })),
    bad,
    last: last && (last.last ?? last.value).at(-1),
    count: pieces.reduce((sum, { x }) => sum + x.length, 0),
  };
}

// Points that are no numbers. A bucket that holds one shows it by its extremes, or by how many there are.
/** @param {AlongAxis} piece */
function badIn({ x, value, min, max, num_nan }) {
  const [lows, highs] = [min ?? value, max ?? value];
  /** @type {BadPoint[]} */
  const found = [];
  for (let at = 0; at < x.length; at += 1) {
    if (lows[at] !== lows[at] || (num_nan?.[at] ?? 0) > 0) found.push({ x: x[at], value: NaN });
    if (highs[at] === Infinity) found.push({ x: x[at], value: Infinity });
    if (lows[at] === -Infinity) found.push({ x: x[at], value: -Infinity });
  }
  return found;
}

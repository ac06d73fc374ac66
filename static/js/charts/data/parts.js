// Pure: the points of one series in one attempt, as equally long Float64Arrays {step, time, value, min, max, last,
// num_nan}. Where they are points and not buckets, min, max and last are null; num_nan, of buckets, where none of them
// has a NaN. What a column shows is never written to again. seams: the places before which points began to lie more or
// less densely than before (buckets end, points begin).
import { lowerBound, upperBound } from "../scales/views.js";

const COLUMNS = /** @type {const} */ (["step", "time", "value"]);
const BANDS = /** @type {const} */ (["min", "max", "last"]);
const ALL = /** @type {const} */ ([...COLUMNS, ...BANDS, "num_nan"]);

// Of a series as an answer or a message has it. In messages "NaN" and "Infinity" are texts; Number() reads them.
/** @param {Series} series @returns {Part} */
export function partOf(series) {
  const isBuckets = series.kind === "buckets";
  /** @param {"min" | "max" | "last"} name */
  const band = (name) => (isBuckets ? floats(series[name]) : null);
  const value = floats(isBuckets ? series.mean : series.value);
  return {
    step: floats(series.step),
    time: floats(series.time),
    value,
    min: band("min"),
    max: band("max"),
    last: band("last"),
    num_nan: series.num_nan ? floats(series.num_nan) : null,
    seams: [],
  };
}

// The one part after the other. Among buckets, a point is a bucket of its own.
/** @template {Part | undefined} T @param {Part | undefined} one @param {T} other @returns {Part | T} */
export function joined(one, other) {
  if (!one?.step.length) return other;
  if (!other?.step.length) return one;
  const length = one.step.length;
  /** @type {any} */
  const whole = { seams: [...one.seams, length, ...other.seams.map((seam) => seam + length)] };
  for (const name of COLUMNS) whole[name] = concat([one[name], other[name]]);
  for (const name of BANDS)
    whole[name] = one.min || other.min ? concat([one[name] ?? one.value, other[name] ?? other.value]) : null;
  whole.num_nan =
    one.num_nan || other.num_nan
      ? concat([one, other].map((part) => part.num_nan ?? new Float64Array(part.step.length)))
      : null;
  return whole;
}

// As joined(), for points that keep coming: there is room behind the columns, so that mostly nothing is copied.
/** @param {Part | undefined} part @param {Part} more @returns {Part} */
export function grown(part, more) {
  if (!part?.step.length || !more.step.length || (more.min && !part.min)) return joined(part, more);
  const from = part.step.length;
  const length = from + more.step.length;
  const room = part.room?.used === from && part.room.step.length >= length ? part.room : roomFor(part, length);
  /** @type {any} */
  const whole = { seams: part.min && !part.hasPoints ? [...part.seams, from] : part.seams, hasPoints: true, room };
  for (const name of ALL) {
    if (room[name] && name !== "num_nan") room[name].set(more[name] ?? more.value, from);
    whole[name] = room[name]?.subarray(0, length);
  }
  room.used = length; // growing an older view of this room copies it
  return whole;
}

/** @param {Part} part @param {number} length @returns {Room} */
function roomFor(part, length) {
  /** @type {any} */
  const room = { used: 0 };
  for (const name of ALL) {
    room[name] = part[name] && new Float64Array(Math.max(64, Math.ceil(1.5 * length)));
    room[name]?.set(part[name]);
  }
  return room;
}

/** @param {Part} part @param {number} start @param {number} [end] @returns {Part} */
export function slice(part, start, end = part.step.length) {
  /** @type {any} */
  const piece = { seams: part.seams.filter((seam) => seam > start && seam < end).map((seam) => seam - start) };
  for (const name of ALL) piece[name] = part[name]?.subarray(start, end);
  return piece;
}

// The part with finer points in the place of what it has in the window {axis, from, to}.
/** @param {Part} part @param {Part} fine @param {{axis: "step" | "time", from: number, to: number}} stretch
 * @returns {Part} */
export function spliced(part, fine, { axis, from, to }) {
  const along = part[axis];
  const last = fine[axis].at(-1) ?? from;
  // What was pushed after the window was read lies inside it, and behind its last point.
  const isNewer = newerThan(part, along, fine, last);
  if (!isRising(along)) {
    const rest = pick(part, (at) => along[at] < from || along[at] > to || isNewer(at));
    return joined(rest, fine) ?? fine;
  }
  const head = lowerBound(along, from);
  const tail = upperBound(along, to);
  let newer = tail;
  while (fine.step.length && newer > head && isNewer(newer - 1)) newer -= 1;
  return joined(joined(slice(part, 0, head), fine), slice(part, newer)) ?? fine;
}

/** @param {Part} part @param {Column} along @param {Part} fine @param {number} last
 * @returns {(at: number) => boolean} */
function newerThan(part, along, fine, last) {
  const step = fine.step.at(-1) ?? Infinity;
  return (at) => along[at] > last && part.step[at] > step;
}

/** The points at the places that fit, in their order. @param {Part} part @param {(at: number) => boolean} isIt */
export function pick(part, isIt) {
  const places = [];
  for (let at = 0; at < part.step.length; at += 1) if (isIt(at)) places.push(at);
  return taken(part, places);
}

/** The points at these places. @param {Part} part @param {number[]} places @returns {Part} */
export function taken(part, places) {
  /** @type {any} */
  const whole = { seams: [] };
  for (const name of ALL) {
    const column = part[name];
    whole[name] = column && Float64Array.from(places, (at) => column[at]);
  }
  return whole;
}

/** @param {ArrayLike<number>[]} columns @returns {Column} */
export function concat(columns) {
  if (columns.length === 1 && columns[0] instanceof Float64Array) return columns[0];
  const whole = new Float64Array(columns.reduce((length, column) => length + column.length, 0));
  let at = 0;
  for (const column of columns) {
    whole.set(column, at);
    at += column.length;
  }
  return whole;
}

/** @param {ArrayLike<number>} column */
const floats = (column) => (column instanceof Float64Array ? column : Float64Array.from(column, Number));

/** @param {Column} column */
export function isRising(column) {
  for (let at = 1; at < column.length; at += 1) if (!(column[at] > column[at - 1])) return false;
  return true;
}

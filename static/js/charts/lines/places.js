// Pure: the places of x that many lines have together, before, in and behind what is seen of them.
import { lowerBound, upperBound } from "../scales/views.js";

export const PER_CELL = 4; // places: for the first, the lowest, the highest and the last value
const PER_PIXEL = 2;
const MARGIN = 4; // beside the view there are places for a quarter of it on either side, for panning

// The stretches before, in and behind the view, each with its x where that has no more places than `places`.
/** @param {Column[]} columns @param {GridOptions} options @returns {Section[]} */
export function sections(columns, { width = 600, view, isLogX }) {
  const low = Math.min(...columns.map((x) => x[0]));
  const high = Math.max(...columns.map((x) => x[x.length - 1]));
  const places = Math.max(PER_CELL, PER_CELL * Math.floor((PER_PIXEL * width) / PER_CELL));
  const beside = Math.max(PER_CELL, PER_CELL * Math.floor(places / MARGIN / PER_CELL));
  const [from, to] = view ? [Math.max(view[0], low), Math.min(view[1], high)] : [low, high];
  /** @type {Partial<Section> & Pick<Section, "from" | "to" | "places">} */
  const before = { from: low, to: from, places: beside, endOf: (/** @type {Column} */ x) => lowerBound(x, from) };
  /** @type {typeof before} */
  const behind = { from: to, to: high, places: beside, startOf: (/** @type {Column} */ x) => upperBound(x, to) };
  /** @type {typeof before} */
  const seen = { from, to, places, startOf: (x) => lowerBound(x, from), endOf: (x) => upperBound(x, to) };
  /** @type {typeof before} */
  const whole = { from: low, to: high, places };
  const isViewed = from < to && (!isLogX || from > 0);
  const found = isViewed ? [before, seen, behind].filter((one) => one.from < one.to) : [whole];
  return found.map(({ startOf = () => 0, endOf = (x) => x.length, ...section }) => {
    const own = columns.map((column) => column.subarray(startOf(column), endOf(column)));
    const x = union(own, section.places);
    return { ...section, startOf, endOf, x };
  });
}

// All places of sorted columns, each once; null where they are more than `most`.
/** @param {Column[]} columns @param {number} most @returns {Column | null} */
export function union(columns, most) {
  let all = [...new Set(columns)].filter((x) => x.length);
  if (!all.length) return new Float64Array(0);
  if (Math.max(...all.map((x) => x.length)) > most) return null;
  while (all.length > 1) {
    const merged = [];
    for (let at = 0; at < all.length; at += 2) merged.push(at + 1 < all.length ? merge(all[at], all[at + 1]) : all[at]);
    if (merged.some((x) => x.length > most)) return null;
    all = merged;
  }
  return all[0];
}

/** @param {Column} one @param {Column} other */
function merge(one, other) {
  const x = new Float64Array(one.length + other.length);
  let [a, b, length] = [0, 0, 0];
  while (a < one.length || b < other.length) {
    const next = b >= other.length || one[a] <= other[b] ? one[a] : other[b];
    if (one[a] === next) a += 1;
    if (other[b] === next) b += 1;
    x[length++] = next;
  }
  return x.subarray(0, length);
}

/** @param {number} start @param {number} end */
export function range(start, end) {
  const all = new Int32Array(end - start);
  for (let at = 0; at < all.length; at += 1) all[at] = start + at;
  return all;
}

/** @param {Column} one @param {Column} other */
export function isEqual(one, other) {
  if (one === other) return true;
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at += 1) if (one[at] !== other[at]) return false;
  return true;
}

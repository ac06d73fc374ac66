// Pure: lines with more points than are visible, in cells of a few pixels. Of each line's values in a cell the
// first, the lowest, the highest and the last stay, in their order, so that no spike vanishes; of up to four, each.
import { PER_CELL, range } from "./places.js";

/** @param {Table[]} tables @param {Section} section @param {boolean} isLogX */
export function coarse(tables, section, isLogX) {
  const { from, to, places } = section;
  /** @type {(x: number) => number} */
  const scale = isLogX
    ? (x) => (places * Math.log(x / from)) / Math.log(to / from)
    : (x) => (places * (x - from)) / (to - from);
  /** @type {(place: number) => number} */
  const back = isLogX
    ? (place) => from * (to / from) ** (place / places)
    : (place) => from + ((to - from) * place) / places;
  const taken = new Float64Array(places).fill(NaN); // the x of a place: that of a point in it
  const isUsed = new Uint8Array(places);
  /** @type {Map<Column, Picks>} */
  const shared = new Map(); // x -> picks, where no cell has so many points that it depends on y which of them stay
  /** @type {Map<Table, Picks>} */
  const picks = new Map(tables.map((table) => [table, shared.get(table.x) ?? pickFrom(table)]));
  /** @param {Table} table @returns {Picks} */
  function pickFrom({ x, y }) {
    const own = range(section.startOf(x), section.endOf(x)).map((at) =>
      Math.max(0, Math.min(places - 1, scale(x[at]))),
    );
    const start = section.startOf(x);
    const found = {
      places: new Int32Array(Math.min(own.length, places)),
      points: new Int32Array(Math.min(own.length, places)),
    };
    let [num, isPlain] = [0, true];
    for (let at = 0, next = 0; at < own.length; at = next) {
      const cell = own[at] >> 2;
      while (next < own.length && own[next] >> 2 === cell) next += 1;
      const kept = next - at > PER_CELL ? extremes(y, start + at, start + next) : null;
      isPlain &&= !kept;
      const size = kept ? kept.length : next - at;
      for (let which = 0, place = cell * PER_CELL - 1; which < size; which += 1, num += 1) {
        const point = kept ? kept[which] : start + at + which;
        place = Math.min(Math.max(own[point - start], place + 1), (cell + 1) * PER_CELL - size + which);
        found.places[num] = place;
        found.points[num] = point;
        isUsed[place] = 1;
        if (own[point - start] === place && taken[place] !== taken[place]) taken[place] = x[point];
      }
    }
    const all = { places: found.places.subarray(0, num), points: found.points.subarray(0, num) };
    if (isPlain) shared.set(x, all);
    return all;
  }
  const rank = new Int32Array(places);
  let length = 0;
  for (let place = 0; place < places; place += 1) rank[place] = isUsed[place] ? length++ : length;
  const x = new Float64Array(length);
  for (let place = 0; place < places; place += 1)
    if (isUsed[place]) x[rank[place]] = taken[place] === taken[place] ? taken[place] : back(place + 0.5);
  return { x, rank, picksOf: (/** @type {Table} */ table) => /** @type {Picks} */ (picks.get(table)) };
}

// Where in y the first, lowest, highest and last value of a cell are, and a gap of it.
/** @param {Column} y @param {number} start @param {number} end */
function extremes(y, start, end) {
  let [low, high, first, last, gap] = [-1, -1, -1, -1, -1];
  for (let at = start; at < end; at += 1) {
    const value = y[at];
    if (value !== value) {
      gap = at;
      continue;
    }
    if (first < 0) first = at;
    if (low < 0 || value < y[low]) low = at;
    if (high < 0 || value > y[high]) high = at;
    last = at;
  }
  const found = gap < 0 ? [first, low, high, last] : [low, high, gap, gap > last ? first : last];
  return [...new Set(found)].filter((at) => at >= 0).sort((a, b) => a - b);
}

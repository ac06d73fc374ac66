// Pure: one rising x for lines that do not share theirs. Where all their places fit, they are taken as they are; else they
// fall into as many as can be seen, and of each line's values in a cell the first, the lowest, the highest and the last stay.
import { lowerBound, upperBound } from "./parts.js";
import { nulled } from "./values.js";

const PER_CELL = 4;
const PER_PIXEL = 2;
const MARGIN = 4; // beside the view there are places for a quarter of it on either side, for who pans

// tables: [{x, y}], Float64Arrays, NaN is a gap; view: what is seen of x, or null. Returns {x, ys}: in ys `null` is a gap,
// `undefined` only says that the line has no point at this place.
export function join(tables, { width = 600, view = null, isLogX = false } = {}) {
  if (!tables.length) return { x: new Float64Array(0), ys: [] };
  if (tables.every(({ x }) => isEqual(x, tables[0].x))) return { x: tables[0].x, ys: tables.map(({ y }) => nulled(y)) };
  const distinct = [...new Set(tables.map(({ x }) => x))];
  const found = sections(distinct, { width, view, isLogX }).map((section) => (section.x ? exact(tables, section) : coarse(tables, section, isLogX)));
  const length = found.reduce((sum, { x }) => sum + x.length, 0);
  const whole = { x: new Float64Array(length), ys: tables.map(() => new Array(length)) };
  let at = 0;
  for (const { x, ys } of found) {
    whole.x.set(x, at);
    ys.forEach((y, table) => y.forEach((value, place) => (whole.ys[table][at + place] = value)));
    at += x.length;
  }
  return whole;
}

// Places for values that are read between the points of lines.
export function commonX(columns, options) {
  if (columns.every((x) => isEqual(x, columns[0]))) return columns[0];
  const parts = sections(columns, options).map(({ x, from, to, places }) => {
    if (x) return x;
    const [low, high] = options.isLogX ? [Math.log(from), Math.log(to)] : [from, to];
    const even = Float64Array.from({ length: places + 1 }, (_, at) => low + ((high - low) * at) / places);
    return options.isLogX ? even.map(Math.exp) : even;
  });
  return union(parts, Infinity); // the ends of neighbours are one place
}

// The stretches before, in and behind the view, each with its x where that has no more places than `places`.
function sections(columns, { width = 600, view, isLogX }) {
  const low = Math.min(...columns.map((x) => x[0]));
  const high = Math.max(...columns.map((x) => x.at(-1)));
  const places = Math.max(PER_CELL, PER_CELL * Math.floor((PER_PIXEL * width) / PER_CELL));
  const beside = Math.max(PER_CELL, PER_CELL * Math.floor(places / MARGIN / PER_CELL));
  const [from, to] = view ? [Math.max(view[0], low), Math.min(view[1], high)] : [low, high];
  const before = { from: low, to: from, places: beside, endOf: (x) => lowerBound(x, from) };
  const behind = { from: to, to: high, places: beside, startOf: (x) => upperBound(x, to) };
  const seen = { from, to, places, startOf: (x) => lowerBound(x, from), endOf: (x) => upperBound(x, to) };
  const whole = { from: low, to: high, places };
  const isViewed = from < to && (!isLogX || from > 0);
  const found = isViewed ? [before, seen, behind].filter((one) => one.from < one.to) : [whole];
  return found.map(({ startOf = () => 0, endOf = (x) => x.length, ...section }) => {
    const x = union(columns.map((column) => column.subarray(startOf(column), endOf(column))), section.places);
    return { ...section, startOf, endOf, x };
  });
}

// All places of sorted columns, each once; null where they are more than `most`.
function union(columns, most) {
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

function exact(tables, { x }) {
  const ys = tables.map(({ x: own, y }) => {
    const column = new Array(x.length);
    let place = 0;
    for (let at = lowerBound(own, x[0]); at < own.length && place < x.length; at += 1) {
      while (x[place] < own[at]) place += 1;
      if (x[place] === own[at]) column[place] = y[at] === y[at] ? y[at] : null;
    }
    return column;
  });
  return { x, ys };
}

function coarse(tables, { from, to, places, startOf, endOf }, isLogX) {
  const scale = isLogX ? (x) => (places * Math.log(x / from)) / Math.log(to / from) : (x) => (places * (x - from)) / (to - from);
  const back = isLogX ? (place) => from * (to / from) ** (place / places) : (place) => from + ((to - from) * place) / places;
  const taken = new Float64Array(places).fill(NaN); // the x of a place: that of a point in it
  const isUsed = new Uint8Array(places);
  const ys = tables.map(({ x, y }) => {
    const column = new Array(places);
    const end = endOf(x);
    for (let at = startOf(x); at < end; ) {
      const cell = Math.min(places - 1, scale(x[at])) >> 2;
      let next = at + 1;
      while (next < end && Math.min(places - 1, scale(x[next])) >> 2 === cell) next += 1;
      const kept = next - at <= PER_CELL ? null : extremes(y, at, next);
      const num = kept ? kept.length : next - at;
      let place = cell * PER_CELL - 1;
      for (let which = 0; which < num; which += 1) {
        const from = kept ? kept[which] : at + which;
        const own = Math.min(places - 1, scale(x[from])) | 0;
        place = Math.min(Math.max(own, place + 1), (cell + 1) * PER_CELL - num + which);
        column[place] = y[from] === y[from] ? y[from] : null;
        isUsed[place] = 1;
        if (own === place && taken[place] !== taken[place]) taken[place] = x[from];
      }
      at = next;
    }
    return column;
  });
  const used = [];
  for (let place = 0; place < places; place += 1) if (isUsed[place]) used.push(place);
  const x = Float64Array.from(used, (place) => (taken[place] === taken[place] ? taken[place] : back(place + 0.5)));
  return { x, ys: ys.map((column) => used.map((place) => column[place])) };
}

// Where in y the first, lowest, highest and last value of a cell are, and a gap of it.
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

function isEqual(one, other) {
  if (one === other) return true;
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at += 1) if (one[at] !== other[at]) return false;
  return true;
}

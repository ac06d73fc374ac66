// Pure: one rising x for lines that do not share theirs. Where all their places fit, they are taken as they are; else
// they fall into as many as can be seen (cells.js).

import { concat } from "../data/parts.js";
import { coarse } from "./cells.js";
import { isEqual, range, sections, union } from "./places.js";
import { nulled } from "./values.js";

// tables: [{x, y}], Float64Arrays, NaN is a gap; view: what is seen of x, or null. Returns {x, ys}: in ys `null` is a
// gap, `undefined` only says that the line has no point at this place.
/** @param {Table[]} tables @param {GridOptions} [options] @returns {{x: Column, ys: Values[]}} */
export function join(tables, { width = 600, view = null, isLogX = false } = {}) {
  if (!tables.length) return { x: new Float64Array(0), ys: [] };
  if (tables.every(({ x }) => isEqual(x, tables[0].x))) return { x: tables[0].x, ys: tables.map(({ y }) => nulled(y)) };
  const distinct = [...new Set(tables.map(({ x }) => x))];
  const found = sections(distinct, { width, view, isLogX }).map((section) =>
    section.x ? exact(distinct, section) : coarse(tables, section, isLogX),
  );
  /** @type {(number | null | undefined)[][]} */
  const ys = tables.map(() => new Array(found.reduce((sum, { x }) => sum + x.length, 0)));
  let from = 0;
  for (const { x, rank, picksOf } of found) {
    tables.forEach((table, num) => {
      const { places, points } = picksOf(table);
      for (let at = 0; at < places.length; at += 1) {
        const value = table.y[points[at]];
        ys[num][from + (rank ? rank[places[at]] : places[at])] = value === value ? value : null;
      }
    });
    from += x.length;
  }
  return { x: concat(found.map(({ x }) => x)), ys };
}

// Places for values that are read between the points of lines.
/** @param {Column[]} columns @param {GridOptions} options @returns {Column} */
export function commonX(columns, options) {
  if (columns.every((x) => isEqual(x, columns[0]))) return columns[0];
  const parts = sections(columns, options).map(({ x, from, to, places }) => {
    if (x) return x;
    const [low, high] = options.isLogX ? [Math.log(from), Math.log(to)] : [from, to];
    const even = Float64Array.from({ length: places + 1 }, (_, at) => low + ((high - low) * at) / places);
    return options.isLogX ? even.map(Math.exp) : even;
  });
  return union(parts, Infinity) ?? new Float64Array(0); // the ends of neighbours are one place
}

// Which of a line's points stand at which of the places; lines of one x share the answer.
/** @param {Column[]} distinct @param {Section} section */
function exact(distinct, { startOf, endOf, ...section }) {
  const x = section.x ?? new Float64Array(0);
  /** @type {Map<Column, Picks>} */
  const known = new Map();
  for (const own of distinct) {
    const points = range(startOf(own), endOf(own));
    let place = 0;
    const places = points.map((at) => {
      while (x[place] < own[at]) place += 1;
      return place;
    });
    known.set(own, { points, places });
  }
  return { x, rank: null, picksOf: (/** @type {Table} */ table) => /** @type {Picks} */ (known.get(table.x)) };
}

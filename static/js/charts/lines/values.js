// Pure: columns of values as the chart's arithmetic has them: Float64Arrays in which NaN is a gap.

// Without what cannot be drawn. A column that needs nothing stays the array it is.
/** @param {Column} column @param {boolean | undefined} isLog */
export function plottable(column, isLog) {
  /** @type {(value: number) => boolean} */
  const isGood = isLog ? (value) => value > 0 && value < Infinity : (value) => value - value === 0;
  let at = 0;
  while (at < column.length && (isGood(column[at]) || Number.isNaN(column[at]))) at += 1;
  if (at === column.length) return column;
  const clean = column.slice();
  for (; at < clean.length; at += 1) if (!isGood(clean[at])) clean[at] = NaN;
  return clean;
}

// The smallest and the largest finite value; null where there is none.
/** @param {ArrayLike<number>} lows @param {ArrayLike<number>} [highs] @returns {Extremes | null} */
export function extent(lows, highs = lows) {
  let [min, max] = [Infinity, -Infinity];
  for (const value of Array.from(lows)) if (value < min && value > -Infinity) min = value;
  for (const value of Array.from(highs)) if (value > max && value < Infinity) max = value;
  return min <= max ? { min, max } : null;
}

/** As a plot reads it: null is a gap. @param {Column} column @returns {Values} */
export function nulled(column) {
  for (let at = 0; at < column.length; at += 1)
    if (column[at] !== column[at]) return Array.from(column, (value) => (value === value ? value : null));
  return column;
}

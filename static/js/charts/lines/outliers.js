// Pure: the range of y in which nearly all values lie.
const LOW = 0.01;
const HIGH = 0.99;
const SMALLEST = 1e-300;
const ROOM = 0.1; // of the range, on either side

// columns: Float64Arrays, NaN where there is nothing; null where nothing is left out by it.
/** @param {Column[]} columns @param {boolean} [isLog] */
export function rangeWithoutOutliers(columns, isLog = false) {
  const values = new Float64Array(columns.reduce((length, column) => length + column.length, 0));
  let length = 0;
  for (const column of columns)
    for (const value of column)
      if (value - value === 0 && (!isLog || value > 0)) values[length++] = isLog ? Math.log(value) : value;
  if (length === 0) return null;
  const sorted = values.subarray(0, length).sort();
  const [low, high] = [percentile(sorted, LOW), percentile(sorted, HIGH)];
  const room = ROOM * (high - low) || Math.abs(high) * ROOM || 1;
  return isLog
    ? { low: Math.max(Math.exp(low - room), SMALLEST), high: Math.min(Math.exp(high + room), Number.MAX_VALUE) }
    : { low: low - room, high: high + room };
}

// Between two values, as far as the share lies between them.
/** @param {ArrayLike<number>} sorted @param {number} share */
export function percentile(sorted, share) {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}

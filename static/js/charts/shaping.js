// Pure: what a column of values needs before it is drawn. Columns that need nothing stay the typed arrays they are.

// Values that can be drawn; null where there is none.
export function plottable(column, isLog) {
  const isGood = (value) => Number.isFinite(value) && (!isLog || value > 0);
  return column.every(isGood) ? column : Array.from(column, (value) => (isGood(value) ? value : null));
}

// The smallest and the largest finite value; null where there is none.
export function extent(lows, highs) {
  let [min, max] = [Infinity, -Infinity];
  for (const value of lows) if (value < min && Number.isFinite(value)) min = value;
  for (const value of highs) if (value > max && Number.isFinite(value)) max = value;
  return min <= max ? { min, max } : null;
}

// Exponential mean whose memory is in units of x, so that uneven spacing does not change the look; a gap stays a gap.
export function smooth(x, y, amount) {
  const range = x.at(-1) - x[0] || 1;
  const weight = Math.min(Math.sqrt(amount), 0.999);
  let mean = 0;
  let debias = 0;
  let before = x[0];
  return y.map((value, at) => {
    if (value === null) return null;
    const fade = weight ** (((x[at] - before) / range) * 1000 || 0);
    before = x[at];
    mean = (mean * debias * fade + value) / (debias * fade + 1);
    debias = debias * fade + 1;
    return mean;
  });
}

// One rising x for all tables {x, y}; where a line has no point there is `undefined` (no gap), where its value is not finite `null` (a gap).
export function join(tables) {
  if (tables.length === 0) return { x: [], ys: [] };
  const isShared = tables.every(({ x }) => x === tables[0].x || (x.length === tables[0].x.length && x.every((value, at) => value === tables[0].x[at])));
  if (isShared) return { x: tables[0].x, ys: tables.map(({ y }) => y) };
  const distinct = [...new Set(tables.map((table) => table.x))];
  const x = [...new Set(distinct.flatMap((one) => Array.from(one)))].sort((a, b) => a - b);
  const place = new Map(x.map((value, at) => [value, at]));
  const ys = tables.map((table) => {
    const y = new Array(x.length);
    table.x.forEach((value, at) => (y[place.get(value)] = table.y[at]));
    return y;
  });
  return { x, ys };
}

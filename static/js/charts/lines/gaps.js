// Pure: where a line has no points for long. There it is broken, so that no value shows where none was logged.
const TIMES = 8; // as far apart as this many points usually are
const FEW = 3;
const OFTEN = 16; // a pause after every few points is logging in bursts, and no gap
const NEAR = 2; // points on either side that define the usual spacing

// The places after which a gap lies. seams: places before which points lie more or less densely than before.
/** @param {Column} x @param {number[]} [seams] */
export function gapsIn(x, seams = []) {
  const found = [];
  const usual = [0, ...seams, x.length].map((start, at, all) =>
    at + 1 < all.length ? medianStep(x, start, all[at + 1]) : 0,
  );
  for (let stretch = 0, at = 0; at + 1 < x.length; at += 1) {
    while (stretch < seams.length && at + 1 > seams[stretch]) stretch += 1;
    const isSeam = at + 1 === seams[stretch];
    const least = TIMES * (isSeam ? Math.max(usual[stretch], usual[stretch + 1]) : usual[stretch]);
    if (least > 0 && x[at + 1] - x[at] >= least && x[at + 1] - x[at] >= TIMES * around(x, at, isSeam)) found.push(at);
  }
  const isRhythm = found.length > FEW && found.length * OFTEN > x.length;
  return isRhythm ? [] : found;
}

// The table {x, value, min, max} with a row of NaN in the middle of each gap.
/** @param {Points & {min: Column | null, max: Column | null}} table @param {number[]} gaps */
export function broken(table, gaps) {
  if (!gaps.length) return table;
  const { x } = table;
  const withGaps = (/** @type {Column} */ column) => spread(column, gaps, () => NaN);
  return {
    x: spread(x, gaps, (at) => (x[at] + x[at + 1]) / 2),
    value: withGaps(table.value),
    min: table.min && withGaps(table.min),
    max: table.max && withGaps(table.max),
  };
}

/** @param {Column} column @param {number[]} gaps @param {(at: number) => number} between */
function spread(column, gaps, between) {
  const wide = new Float64Array(column.length + gaps.length);
  let from = 0;
  gaps.forEach((at, num) => {
    wide.set(column.subarray(from, at + 1), from + num);
    wide[at + 1 + num] = between(at);
    from = at + 1;
  });
  wide.set(column.subarray(from), from + gaps.length);
  return wide;
}

// Someone may log often first and rarely later: what is usual is asked nearby, too.
/** @param {Column} x @param {number} at @param {boolean} isSeam */
function around(x, at, isSeam) {
  if (isSeam) return 0;
  const near = [];
  for (let other = Math.max(0, at - NEAR); other <= Math.min(x.length - 2, at + NEAR); other += 1)
    if (other !== at) near.push(x[other + 1] - x[other]);
  return near.length ? near.sort((a, b) => a - b)[near.length >> 1] : Infinity;
}

/** @param {Column} x @param {number} start @param {number} end */
function medianStep(x, start, end) {
  if (end - start < 2) return 0;
  const steps = new Float64Array(end - start - 1);
  for (let at = 0; at < steps.length; at += 1) steps[at] = x[start + at + 1] - x[start + at];
  return steps.sort()[steps.length >> 1];
}

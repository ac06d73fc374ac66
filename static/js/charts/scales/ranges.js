// Pure: what of a chart that was built is in view, and how far it reaches.
import { lowerBound, padded } from "./views.js";

// The places [first, behind the last] of a rising x that a scale {min, max} shows.
/** @param {ArrayLike<number>} x @param {{min: number, max: number}} scale @returns {Span} */
export function inView(x, { min, max }) {
  const end = lowerBound(x, max + Math.abs(max) * 1e-15);
  return [lowerBound(x, min), x[end] === max ? end + 1 : end];
}

// The lowest and the highest drawable value in view, over all columns; between two points what they have; [null, null]
// where there is none.
/** @param {Pick<BuiltChart, "x" | "ys">} built @param {{min: number, max: number}} scale @param {boolean} isLog */
export function extentOf({ x, ys }, scale, isLog) {
  const [first, last] = inView(x, scale);
  const found = extentBetween(ys, first, last, isLog);
  return found[0] === null ? extentBetween(ys, Math.max(0, first - 1), last + 1, isLog) : found;
}

/** @param {Values[]} ys @param {number} from @param {number} to @param {boolean} isLog
 * @returns {[number | null, number | null]} */
function extentBetween(ys, from, to, isLog) {
  let [low, high] = [Infinity, -Infinity];
  for (const y of ys) {
    for (let at = from; at < to && at < y.length; at += 1) {
      const value = y[at];
      if (value === null || value === undefined || !Number.isFinite(value) || (isLog && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : [null, null];
}

// The range of y: what is in view with room around it, or what was found without outliers.
/** @param {BuiltChart} built @param {Span} range @param {boolean} isLog @returns {Span} */
export function yRangeOf(built, [min, max], isLog) {
  const { range } = built;
  if (range && (!isLog || range.low > 0)) return padded(range.low, range.high, isLog);
  return padded(...extentOf(built, { min, max }, isLog), isLog);
}

// From the first x to the last; while only a part is in view, what was known of the whole stays.
/** @param {BuiltChart} built @param {Span | null} view @param {Span | null | undefined} known @param {boolean} [isLog]
 * @returns {Span} */
export function reachOf({ x, bad }, view, known, isLog = false) {
  /** @param {Span} range @param {BadPoint} one @returns {Span} */
  const reach = ([low, high], one) =>
    isLog && one.x <= 0 ? [low, high] : [Math.min(low, one.x), Math.max(high, one.x)];
  /** @type {Span} */
  const start = [Infinity, -Infinity];
  const [low, high] = x.length ? [x[0], x[x.length - 1]] : bad.reduce(reach, start);
  if (view && known) return [Math.min(known[0], low), Math.max(known[1], high)];
  if (low < high) return [low, high];
  if (low > high) return isLog ? [1, 10] : [0, 1];
  return isLog ? [low / 2, low * 2] : [low - 0.5, low + 0.5];
}

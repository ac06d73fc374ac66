// Pure: the stretch [from, to] of an axis that is in view, as hands move and zoom it. null: all there is.

// `at` stays where it is; factor 0.5 shows half as much.
/** @param {Span} range @param {number} at @param {number} factor @param {boolean} [isLog] @returns {Span} */
export function zoomed([from, to], at, factor, isLog = false) {
  if (isLog && from > 0 && at > 0) return eased(zoomed(logged(from, to), Math.log(at), factor));
  return [at - (at - from) * factor, at + (to - at) * factor];
}

// share: of what is in view; 0.5 moves it to the right by half.
/** @param {Span} range @param {number} share @param {boolean} [isLog] @returns {Span} */
export function panned([from, to], share, isLog = false) {
  if (isLog && from > 0) return eased(panned(logged(from, to), share));
  return [from + (to - from) * share, to + (to - from) * share];
}

/** @param {number} from @param {number} to @returns {Span} */
const logged = (from, to) => [Math.log(from), Math.log(to)];

/** @param {Span} range @returns {Span} */
const eased = ([from, to]) => [Math.exp(from), Math.exp(to)];

// What may be shown of [first, last]: pushed back in where it left, null where it is all of it; least: the narrowest.
/** @param {Span} range @param {Span} whole @param {number} least @returns {Span | null} */
export function within([from, to], [first, last], least) {
  let width = to - from;
  if (!(width < last - first)) return null;
  if (width < least) {
    const middle = (from + to) / 2;
    [from, to, width] = [middle - least / 2, middle + least / 2, least];
  }
  if (from < first) return [first, first + width];
  if (to > last) return [last - width, last];
  return [from, to];
}

// With room at both ends, and never of no width.
/** @param {number | null} low @param {number | null} high @param {boolean} [isLog] @returns {Span} */
export function padded(low, high, isLog = false) {
  if (low === null || high === null || low > high) return isLog ? [0.1, 10] : [0, 1];
  if (isLog) {
    const room = Math.max((high / low) ** 0.06, 1.02);
    return [low / room, high * room];
  }
  const room = (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// The place in a rising x of the first that is not below the value; isAbove: of the first that is above it.
/** @param {ArrayLike<number>} x @param {number} value @param {boolean} [isAbove] */
export function lowerBound(x, value, isAbove = false) {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value || (isAbove && x[middle] === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The place of the first that is above the value. @param {ArrayLike<number>} x @param {number} value */
export const upperBound = (x, value) => lowerBound(x, value, true);

/** @param {ArrayLike<number>} x @param {number} value */
export function nearestPlace(x, value) {
  const at = lowerBound(x, value);
  return at > 0 && (at === x.length || value - x[at - 1] <= x[at] - value) ? at - 1 : at;
}

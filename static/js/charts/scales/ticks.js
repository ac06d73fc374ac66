// Pure: where an axis has its ticks. `most`: how many there is room for.
const SPANS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
]; // seconds
const DAY = 86400;
const BETWEEN = [[1, 2, 5], [1, 3], [1]]; // of each power, the most first

// isWhole: between two whole numbers there is nothing.
/** @param {number} min @param {number} max @param {number} most @param {boolean} [isWhole] */
export function linearTicks(min, max, most, isWhole = false) {
  const step = nice(Math.max(isWhole ? 1 : 0, (max - min) / Math.max(1, most)));
  return multiples(min, max, isWhole && !Number.isInteger(step) ? 2 * step : step);
}

// At powers of ten and, where there is room, between them; evenly where the range has no power of ten.
/** @param {number} min @param {number} max @param {number} most */
export function logTicks(min, max, most) {
  if (!(min > 0 && max < Infinity)) return [];
  const all = BETWEEN.map((between) => powers(min, max, between, 1)).find(
    (ticks) => ticks.length > 1 && ticks.length <= most + 1,
  );
  if (all) return all;
  const stride = Math.max(1, Math.ceil(Math.log10(max / min) / Math.max(1, most)));
  const ticks = stride > 1 ? powers(min, max, [1], stride) : [];
  return ticks.length > 1 ? ticks : linearTicks(min, max, most);
}

/** @param {number} min @param {number} max @param {number[]} between @param {number} stride */
function powers(min, max, between, stride) {
  /** @type {number[]} */
  const ticks = [];
  const last = Math.floor(Math.log10(max));
  for (let power = Math.ceil(Math.floor(Math.log10(min)) / stride) * stride; power <= last; power += stride) {
    for (const one of between)
      if (one * 10 ** power >= min && one * 10 ** power <= max) ticks.push(Number(`${one}e${power}`));
  }
  return ticks;
}

/** In powers of two, as memory is counted. @param {number} min @param {number} max @param {number} most */
export function sizeTicks(min, max, most) {
  return multiples(min, max, 2 ** Math.ceil(Math.log2((max - min) / Math.max(1, most))));
}

/** Of seconds since a start. @param {number} min @param {number} max @param {number} most */
export function spanTicks(min, max, most) {
  const least = (max - min) / Math.max(1, most);
  const step = least < 1 ? nice(least) : (SPANS.find((span) => span >= least) ?? Math.ceil(least / DAY) * DAY);
  return multiples(min, max, step);
}

// Of Unix seconds, on round hours and days of this place.
/** @param {number} min @param {number} max @param {number} most */
export function clockTicks(min, max, most) {
  const least = (max - min) / Math.max(1, most);
  if (least < 1) return multiples(min, max, nice(least));
  const span = SPANS.find((one) => one >= least) ?? Math.ceil(least / DAY) * DAY;
  if (span < DAY) {
    const offset = new Date(min * 1000).getTimezoneOffset() * 60;
    return multiples(min - offset, max - offset, span).map((local) => local + offset);
  }
  const first = new Date(min * 1000);
  /** @type {number[]} */
  const ticks = [];
  for (let day = 0, at = min; at <= max && day < 10_000; day += span / DAY) {
    at = new Date(first.getFullYear(), first.getMonth(), first.getDate() + day).getTime() / 1000;
    if (at >= min && at <= max) ticks.push(at);
  }
  return ticks;
}

/** @param {number} min @param {number} max @param {number} step */
function multiples(min, max, step) {
  /** @type {number[]} */
  const ticks = [];
  const first = Math.ceil(min / step - 1e-9);
  if (!Number.isFinite(first) || step <= 0) return ticks;
  const digits = Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(step)))); // 0.3, not 0.30000000000000004
  for (let at = first; at * step <= max + step * 1e-9 && ticks.length < 200; at += 1)
    ticks.push(step < 1e-18 ? at * step : Number((at * step).toFixed(digits)) || 0);
  return ticks;
}

/** @param {number} least */
function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return Number((([1, 2, 2.5, 5, 10].find((one) => one * power >= least * (1 - 1e-9)) ?? 10) * power).toPrecision(2));
}

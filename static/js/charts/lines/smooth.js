// Pure: smoothing of a line with uneven spacing. Each point weighs as much as the stretch of x that it stands for, so
// that a line looks the same however densely it was logged; a gap (NaN) stays one.
/** @typedef {{x: Column, y: Column, weight: Column}} Known */
/** @type {Record<string, (known: Known, memory: number) => Column>} */
const KINDS = { ema, mean, gaussian };
const LONGEST = 0.999;
const REACH = 3.5; // standard deviations, behind which a point counts for nothing
const FINE = 16; // resolution: places in a standard deviation
const TABLE = 2048;
const BELL = Float64Array.from({ length: TABLE + 2 }, (_, at) => Math.exp(-(((at / TABLE) * REACH) ** 2) / 2));

// x rises; range: how far x reaches in the whole chart, of which `amount`, from 0 to 0.999, is remembered.
/** @param {Column} x @param {Column} y @param {{kind: string, amount: number}} smoothing @param {number} [range] */
export function smooth(x, y, { kind, amount }, range = x[x.length - 1] - x[0]) {
  if (!(amount > 0) || !(range > 0) || !KINDS[kind]) return y;
  const places = [];
  for (let at = 0; at < y.length; at += 1) if (y[at] === y[at]) places.push(at);
  if (places.length < 3) return y;
  const known = {
    x: Float64Array.from(places, (at) => x[at]),
    y: Float64Array.from(places, (at) => y[at]),
    weight: weights(x, places),
  };
  const smoothed = KINDS[kind](known, memory(amount, range));
  const whole = new Float64Array(y.length).fill(NaN);
  places.forEach((at, place) => (whole[at] = smoothed[place]));
  return whole;
}

// How far back a mean remembers, in units of x. The weight is that of an exponential mean over a thousandth of the
// range.
/** @param {number} amount @param {number} range */
export const memory = (amount, range) => -range / (1000 * Math.log(Math.min(Math.sqrt(amount), LONGEST)));

// The stretch that each point stands for: half way to its neighbours, but never across a gap.
/** @param {Column} x @param {number[]} places */
function weights(x, places) {
  const weight = new Float64Array(places.length);
  let usual = 0;
  places.forEach((at, place) => {
    const before = place > 0 && places[place - 1] === at - 1 ? x[at] - x[at - 1] : 0;
    const after = places[place + 1] === at + 1 ? x[at + 1] - x[at] : 0;
    weight[place] = before && after ? (before + after) / 2 : before || after || usual;
    usual = weight[place] || usual;
  });
  const first = weight.find((one) => one > 0) ?? 1;
  return weight.map((one) => one || first); // points that stand alone at the very start
}

// Exponential mean: what lies `memory` back counts 1/e.
/** @param {Known} known @param {number} memory @returns {Column} */
function ema({ x, y, weight }, memory) {
  let [sum, total] = [0, 0];
  return y.map((value, at) => {
    const fade = at ? Math.exp((x[at - 1] - x[at]) / memory) : 1;
    const part = -Math.expm1(-weight[at] / memory);
    sum = sum * fade + part * value;
    total = total * fade + part;
    return sum / total;
  });
}

// Running mean over what lies at most `memory` away on either side. Sums are only ever added to: subtracting what
// leaves would leave the rounding of a value of 1e30 behind among small ones.
/** @param {Known} known @param {number} memory @returns {Column} */
function mean({ x, y, weight }, memory) {
  const [sums, totals] = [new Float64Array(x.length + 1), new Float64Array(x.length + 1)]; // from a place to the middle
  let [first, middle, end, sum, total] = [0, 0, 0, 0, 0]; // sum: from the middle to the end
  return y.map((_, at) => {
    for (; end < x.length && x[end] - x[at] <= memory; end += 1) {
      sum += weight[end] * y[end];
      total += weight[end];
    }
    while (x[at] - x[first] > memory) first += 1;
    if (first >= middle) {
      sums[end] = totals[end] = sum = total = 0;
      for (let place = end - 1; place >= first; place -= 1) {
        sums[place] = sums[place + 1] + weight[place] * y[place];
        totals[place] = totals[place + 1] + weight[place];
      }
      middle = end;
    }
    return (sums[first] + sum) / (totals[first] + total);
  });
}

// Mean weighted by a bell curve that is as wide as makes it as smooth as the others.
/** @param {Known} known @param {number} memory @returns {Column} */
function gaussian(known, memory) {
  const sigma = memory / Math.sqrt(Math.PI);
  const scale = TABLE / (REACH * sigma);
  const { x, weight, sum, tilt } = thinned(known, sigma / FINE);
  let first = 0;
  return known.x.map((here) => {
    while ((here - x[first]) * scale >= TABLE) first += 1;
    let [all, total] = [0, 0];
    for (let at = first; at < x.length; at += 1) {
      const away = x[at] - here;
      const place = Math.abs(away) * scale;
      if (place >= TABLE) break;
      const below = place | 0;
      const bell = BELL[below] + (place - below) * (BELL[below + 1] - BELL[below]);
      all += bell * (sum[at] - (away / sigma ** 2) * tilt[at]);
      total += bell * weight[at];
    }
    return all / total;
  });
}

// Points that lie much closer to each other than the bell is wide are taken together at their centre: their weights,
// the sum of what they weigh, and how that leans to one side of the centre (the first two terms of the bell's Taylor
// series there).
/** @param {Known} known @param {number} width */
function thinned({ x, y, weight }, width) {
  const isFine = x.length * width >= 2 * (x[x.length - 1] - x[0]);
  /** @type {Record<"x" | "weight" | "sum" | "tilt", number[]>} */
  const places = { x: [], weight: [], sum: [], tilt: [] };
  for (let at = 0, next = 0; at < x.length; at = next) {
    const cell = Math.floor((x[at] - x[0]) / width);
    let [total, moment, sum, tilt] = [0, 0, 0, 0];
    do {
      total += weight[next];
      moment += weight[next] * (x[next] - x[at]);
      sum += weight[next] * y[next];
      next += 1;
    } while (isFine && next < x.length && Math.floor((x[next] - x[0]) / width) === cell);
    const centre = x[at] + moment / total;
    for (let one = at; next > at + 1 && one < next; one += 1) tilt += weight[one] * y[one] * (x[one] - centre);
    places.x.push(centre);
    places.weight.push(total);
    places.sum.push(sum);
    places.tilt.push(tilt);
  }
  return places;
}

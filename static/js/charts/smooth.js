// Pure: smoothing of a line with uneven spacing. Each point weighs as much as the stretch of x that it stands for, so that
// a line looks the same however densely it was logged; a gap (NaN) stays one.
const KINDS = { ema, mean, gaussian };
const LONGEST = 0.999;
const REACH = 3.5; // standard deviations, behind which a point counts for nothing
const TABLE = 2048;
const BELL = Float64Array.from({ length: TABLE + 2 }, (_, at) => Math.exp(-(((at / TABLE) * REACH) ** 2) / 2));

// x rises; range: how far x reaches in the whole chart, of which `amount`, from 0 to 0.999, is remembered.
export function smooth(x, y, { kind, amount }, range = x.at(-1) - x[0]) {
  if (!(amount > 0) || !(range > 0) || !KINDS[kind]) return y;
  const places = [];
  for (let at = 0; at < y.length; at += 1) if (y[at] === y[at]) places.push(at);
  if (places.length < 3) return y;
  const known = { x: Float64Array.from(places, (at) => x[at]), y: Float64Array.from(places, (at) => y[at]), weight: weights(x, places) };
  const smoothed = KINDS[kind](known, memory(amount, range));
  const whole = new Float64Array(y.length).fill(NaN);
  places.forEach((at, place) => (whole[at] = smoothed[place]));
  return whole;
}

// How far back a mean remembers, in units of x. The weight is that of an exponential mean over a thousandth of the range.
export function memory(amount, range) {
  return -range / (1000 * Math.log(Math.min(Math.sqrt(amount), LONGEST)));
}

// The stretch that each point stands for: half way to its neighbours, but never across a gap.
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

// Running mean over what lies at most `memory` away on either side. Sums are only ever added to: subtracting what leaves
// would leave the rounding of a value of 1e30 behind among small ones.
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
function gaussian({ x, y, weight }, memory) {
  const sigma = memory / Math.sqrt(Math.PI);
  const reach = REACH * sigma;
  const scale = TABLE / reach;
  const smoothed = new Float64Array(y.length);
  let first = 0;
  for (let at = 0; at < y.length; at += 1) {
    while (x[at] - x[first] >= reach) first += 1;
    let [sum, total] = [0, 0];
    for (let other = first; other < y.length; other += 1) {
      const place = Math.abs(x[other] - x[at]) * scale;
      if (place >= TABLE) break;
      const below = place | 0;
      const share = weight[other] * (BELL[below] + (place - below) * (BELL[below + 1] - BELL[below]));
      sum += share * y[other];
      total += share;
    }
    smoothed[at] = sum / total;
  }
  return smoothed;
}

// Where numbers lie on a drawing: ticks, the stretch of each step, the bin of a value, shares of counts.

// Round numbers from low to high, at most `most` of them.
export function ticks(low, high, most) {
  if (!(high > low) || most < 1) return [low];
  const least = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(least));
  const unit = [1, 2, 2.5, 5, 10].find((one) => one * power >= least * 0.999) * power;
  const found = [];
  for (let at = Math.ceil(low / unit); at * unit <= high + unit * 1e-9 && found.length <= most; at += 1)
    found.push(at * unit || 0); // no -0
  return found;
}

// The stretch [from, to] that each of the ascending steps covers: half way to its neighbours, and on one side not much
// more than on the other, so that steps without anything stay empty.
export function stretches(steps) {
  const gaps = steps.slice(1).map((step, at) => step - steps[at]);
  return steps.map((step, at) => {
    const most = 1.5 * Math.min(gaps[at - 1] ?? Infinity, gaps[at] ?? Infinity);
    const [before, after] = [gaps[at - 1] ?? gaps[at] ?? 1, gaps[at] ?? gaps[at - 1] ?? 1];
    return [step - Math.min(before, most) / 2, step + Math.min(after, most) / 2];
  });
}

// The index of the last of the ascending numbers that is at most the value; -1 where none is.
export function lastUpTo(numbers, value) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// The index of the number nearest to the value among ascending ones.
export function nearest(numbers, value) {
  const at = Math.max(0, lastUpTo(numbers, value));
  return at + 1 < numbers.length && numbers[at + 1] - value < value - numbers[at] ? at + 1 : at;
}

// Each count as a share of its row's sum, and the largest share of all.
export function shares(rows) {
  let most = 0;
  const found = rows.map((row) => {
    const sum = row.reduce((total, one) => total + one, 0);
    const all = row.map((one) => (sum ? one / sum : 0));
    most = Math.max(most, ...all);
    return all;
  });
  return { shares: found, most };
}

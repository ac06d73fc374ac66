// Where numbers lie on a drawing: the stretch of each step, shares of counts.

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

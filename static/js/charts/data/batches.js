// Pure: how what is wanted of many runs is asked for in few requests, none of them larger than the server answers.
/** @typedef {(run: string, name: string) => number} NumLines */
export const MAX_RUNS = 100;
const MAX_NAMES = 200;
const MAX_POINTS = 400_000; // of one answer
const MAX_CHARS = 12_000; // of names in an address

// due: Map(run -> Set(names)); numLines(run, name): how many lines it has, as far as is known. Returns [{runs, names,
// points}].
/** @param {Map<string, Set<string>>} due @param {number} points @param {NumLines} [numLines] @returns {Batch[]} */
export function batches(due, points, numLines = () => 1) {
  /** @type {Map<string, {runs: string[], names: string[]}>} */
  const groups = new Map(); // runs that lack the same names are asked together
  for (const [run, names] of due) {
    if (!names.size) continue;
    const key = JSON.stringify([...names].sort());
    const group = groups.get(key) ?? { runs: [], names: [...names] };
    groups.set(key, group);
    group.runs.push(run);
  }
  return [...groups.values()].flatMap(({ runs, names }) =>
    chunks(runs, MAX_RUNS).flatMap((some) => fitting(some, names, points, numLines)),
  );
}

// One that was refused as too much, in halves; as few points where it is a single line.
/** @param {Batch} batch @returns {Batch[]} */
export function halves({ runs, names, points }) {
  if (names.length > 1)
    return chunks(names, Math.ceil(names.length / 2)).map((some) => ({ runs, names: some, points }));
  if (runs.length > 1) return chunks(runs, Math.ceil(runs.length / 2)).map((some) => ({ runs: some, names, points }));
  return points > 16 ? [{ runs, names, points: points >> 1 }] : [];
}

/** @param {Batch} batch */
export function addressOf({ runs, names, points, window }) {
  const parameters = new URLSearchParams([...runs.map((run) => ["run", run]), ...names.map((name) => ["name", name])]);
  if (window)
    for (const [name, value] of Object.entries({ x: window.axis, from: window.from, to: window.to }))
      parameters.set(name, String(value));
  return `/api/v1/series/data?${parameters}&points=${points}&attempts=all`;
}

/** @param {string[]} runs @param {string[]} names @param {number} points @param {NumLines} numLines */
function fitting(runs, names, points, numLines) {
  /** @type {Batch[]} */
  const found = [];
  let [weight, chars] = [0, 0];
  for (const name of names) {
    const heavy = points * runs.reduce((sum, run) => sum + Math.max(1, numLines(run, name)), 0);
    const long = encodeURIComponent(name).length + 6;
    const last = found.at(-1);
    if (!last || weight + heavy > MAX_POINTS || chars + long > MAX_CHARS || last.names.length >= MAX_NAMES) {
      found.push({ runs, names: [name], points });
      [weight, chars] = [heavy, long];
    } else {
      last.names.push(name);
      [weight, chars] = [weight + heavy, chars + long];
    }
  }
  return found;
}

/** @param {string[]} all @param {number} size */
function chunks(all, size) {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.slice(at * size, (at + 1) * size));
}

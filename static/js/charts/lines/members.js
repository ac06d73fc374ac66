// Pure: which lines of a chart are drawn as one, and that one.

import { lineKey } from "../data/names.js";
import { together } from "./groups.js";
import { extent } from "./values.js";

/** @typedef {Pick<DrawnLine, "key" | "run" | "labels" | "group" | "runs">} Identity */
/** @typedef {(place: string, members: DrawnLine[]) => Identity & {band: string, members: DrawnLine[]}} Make */

// lines: [{key, run, labels, runs, x, value, min, max, smooth(), …}] as build.js makes them.
// The ranks of each run as one line with a band from the lowest to the highest.
/** @param {DrawnLine[]} lines @param {BuildOptions} options */
export function byRun(lines, options, keyOf = (/** @type {string} */ run) => `band ${run}`) {
  /** @type {Make} */
  const make = (run, members) => ({
    key: keyOf(run),
    run,
    labels: {},
    group: null,
    runs: [run],
    band: "minmax",
    members,
  });
  return joinedBy(lines, (line) => line.run ?? "", make, options);
}

// The runs of each group as one line. A run with many lines counts once.
/** @param {DrawnLine[]} lines @param {NonNullable<BuildOptions["group"]>} group @param {BuildOptions} options */
export function byGroup(lines, { of, band }, options) {
  const single = byRun(lines, options, (run) => lineKey(run, {}));
  /** @type {Make} */
  const make = (text, members) => ({
    key: `group ${text}`,
    run: null,
    labels: {},
    group: text,
    runs: members.map(({ run }) => run ?? ""),
    band,
    members,
  });
  return joinedBy(single, (line) => of.get(line.run ?? "") ?? "", make, options, 1);
}

/** @param {DrawnLine[]} lines @param {(line: DrawnLine) => string} placeOf @param {Make} make
 * @param {BuildOptions} options @param {number} [least] @returns {DrawnLine[]} */
function joinedBy(lines, placeOf, make, options, least = 2) {
  /** @type {Map<string, DrawnLine[]>} */
  const places = new Map();
  for (const line of lines) {
    const members = places.get(placeOf(line));
    if (members) members.push(line);
    else places.set(placeOf(line), [line]);
  }
  return [...places].flatMap(([place, members]) =>
    members.length < least ? members : [asOne(make(place, members), options)],
  );
}

/** @param {ReturnType<Make>} line @param {BuildOptions} options @returns {DrawnLine} */
function asOne({ members, band, ...line }, options) {
  const own = members.map(({ x, value, min, max }) => ({ x, y: value, low: min ?? value, high: max ?? value }));
  const { x, mean, low, high } = together(own, { ...options, band });
  const found = members.map(({ extremes }) => extremes).filter((one) => one !== null);
  const [lows, highs] = [found.map(({ min }) => min), found.map(({ max }) => max)];
  return {
    ...line,
    x,
    value: mean,
    min: low,
    max: high,
    ghosts: [],
    begins: members.flatMap(({ run, begins }) => begins.map((one) => ({ run: run ?? undefined, ...one }))),
    bad: members.flatMap(({ bad }) => bad),
    last: mean.findLast(Number.isFinite), // as the line ends: over those that came farthest
    reach: reachOf(members),
    extremes: extent(lows, highs),
    count: members.reduce((sum, { count }) => sum + count, 0),
  };
}

// Where the members begin and end, and how many of them are there at the end.
/** @param {DrawnLine[]} members @returns {Reach} */
function reachOf(members) {
  const ends = members.map(({ x }) => x[x.length - 1] ?? -Infinity);
  const to = ends.reduce((most, end) => Math.max(most, end), -Infinity);
  const from = members.reduce((least, { x }) => Math.min(least, x[0] ?? Infinity), Infinity);
  return { from, to, numAtEnd: ends.filter((end) => end === to).length };
}

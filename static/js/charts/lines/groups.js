// Pure: many lines as one, with a band around it: their mean, and their extremes, their spread or how sure the mean is.
import { commonX } from "./grid.js";

// Student's t of 97.5 % by degrees of freedom, from 1 on.
/** @typedef {{x: Column, y: Column, low?: Column, high?: Column}} Member */
/** @typedef {{x: Column, num: Uint32Array, mean: Column, spread: Column, low: Column, high: Column}} State */
const STUDENT = [
  12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216, 2.22814, 2.20099, 2.17881, 2.16037,
  2.14479, 2.13145, 2.11991, 2.10982, 2.10092, 2.09302, 2.08596,
];
const NORMAL = 1.959963985;

// members: [{x, y, low, high}], Float64Arrays, NaN is a gap; band: "minmax", "sd" or "ci" (95 %). Each member counts
// where it has points, and between them on a straight line. Returns {x, mean, low, high}.
/** @param {Member[]} members @param {GridOptions & {band?: string}} options */
export function together(members, { band = "minmax", width, view, isLogX }) {
  const columns = members.map((one) => one.x);
  const x = commonX(columns, { width, view, isLogX });
  const state = {
    x,
    num: new Uint32Array(x.length),
    mean: new Float64Array(x.length),
    spread: new Float64Array(x.length),
    low: new Float64Array(x.length).fill(Infinity),
    high: new Float64Array(x.length).fill(-Infinity),
  };
  for (const member of members) addMember(state, member);
  const { num, mean, spread, low, high } = state;
  for (let at = 0; at < x.length; at += 1) {
    if (!num[at]) mean[at] = NaN;
    if (band === "minmax") {
      if (low[at] > high[at]) low[at] = high[at] = NaN;
      continue;
    }
    const deviation = Math.sqrt(spread[at] / (num[at] - 1)); // of a single one NaN: nothing is known of its spread
    const half =
      num[at] < 2 ? NaN : band === "sd" ? deviation : (student(num[at] - 1) * deviation) / Math.sqrt(num[at]);
    low[at] = mean[at] - half;
    high[at] = mean[at] + half;
  }
  return { x, mean, low, high };
}

// Student's t, which 2.5 % are above; for many degrees of freedom by the expansion of Abramowitz and Stegun, 26.7.5.
/** @param {number} freedom */
export function student(freedom) {
  if (freedom <= STUDENT.length) return STUDENT[freedom - 1];
  const z = NORMAL;
  return (
    z +
    (z ** 3 + z) / (4 * freedom) +
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom ** 2) +
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * freedom ** 3)
  );
}

/** @param {State} state @param {Member} member */
function addMember(state, member) {
  const { x, num, mean, spread } = state;
  const { x: own, y, low = y, high = y } = member;
  let at = 0;
  for (let place = 0; place < x.length; place += 1) {
    while (at + 1 < own.length && own[at + 1] <= x[place]) at += 1;
    const share = shareOf(own, y, at, x[place]);
    if (share === null) continue;
    const value = between(y, at, share);
    num[place] += 1;
    const off = value - mean[place];
    mean[place] += off / num[place];
    spread[place] += off * (value - mean[place]);
    widen(state, place, between(low, at, share), between(high, at, share));
  }
  // No extreme is lost between two places.
  let near = 0;
  for (let point = 0; point < own.length; point += 1) {
    while (near + 1 < x.length && Math.abs(x[near + 1] - own[point]) <= Math.abs(x[near] - own[point])) near += 1;
    widen(state, near, low[point], high[point]);
  }
}

/** @param {State} state @param {number} place @param {number} least @param {number} most */
function widen({ low, high }, place, least, most) {
  if (least < low[place]) low[place] = least;
  if (most > high[place]) high[place] = most;
}

// How far x lies behind point `at` towards the next one; null where the line has nothing to say.
/** @param {Column} own @param {Column} y @param {number} at @param {number} x */
function shareOf(own, y, at, x) {
  if (!own.length || x < own[at] || Number.isNaN(y[at])) return null;
  if (x === own[at]) return 0;
  if (at + 1 === own.length || Number.isNaN(y[at + 1])) return null;
  return (x - own[at]) / (own[at + 1] - own[at]);
}

/** @param {Column} column @param {number} at @param {number} share */
const between = (column, at, share) => (share ? column[at] + share * (column[at + 1] - column[at]) : column[at]);

// Pure: the cells of the heat map of ranks and steps, their colours, and what they say.
import { count, seconds } from "../shared/format.js";

const SHADES = 255;
const [LOW_SHARE, HIGH_SHARE] = [0.02, 0.98];
const LEAST_SPREAD = 1.25; // of the scale's ends: small noise is not drawn as if it were much

/**
 * @typedef {object} Grid
 * @property {number} first_step
 * @property {number} width
 * @property {{rank: number, node: string}[]} ranks
 * @property {(number | null)[][]} microseconds
 */

/** @param {Grid} grid */
export const numColumns = (grid) => grid.microseconds[0]?.length ?? 0;

/** The steps from the first cell's to the end of the last one's. @param {Grid} grid @returns {[number, number]} */
export const extentOf = (grid) => [grid.first_step, grid.first_step + Math.max(1, numColumns(grid)) * grid.width];

// The times between which the colours run: almost all of them, so that a few do not fade the others.
/** @param {Grid} grid @returns {{low: number, high: number}} */
export function scaleOf(grid) {
  const all = grid.microseconds.flat().filter((one) => one !== null);
  if (!all.length) return { low: 0, high: 1 };
  const sorted = Float64Array.from(/** @type {number[]} */ (all)).sort();
  const at = (/** @type {number} */ share) => sorted[Math.round(share * (sorted.length - 1))];
  const low = at(LOW_SHARE);
  return { low, high: Math.max(at(HIGH_SHARE), low * LEAST_SPREAD, low + 1) };
}

// 0 to 255 for each cell, row by row; -1 where there is none.
/** @param {Grid} grid @param {{low: number, high: number}} scale */
export function shadesOf(grid, { low, high }) {
  const shades = new Int16Array(grid.ranks.length * numColumns(grid));
  let place = 0;
  for (const row of grid.microseconds)
    for (const one of row) {
      const share = one === null ? -1 : Math.min(1, Math.max(0, (one - low) / (high - low)));
      shades[place] = one === null ? -1 : Math.round(share * SHADES);
      place += 1;
    }
  return shades;
}

// The cell at a step and a row (with a fraction), within the grid; null where the grid is empty.
/** @param {Grid} grid @param {number} step @param {number} row @returns {{column: number, row: number} | null} */
export function cellAt(grid, step, row) {
  if (!grid.ranks.length || !numColumns(grid)) return null;
  const inside = (/** @type {number} */ value, /** @type {number} */ most) =>
    Math.max(0, Math.min(most, Math.floor(value)));
  return {
    column: inside((step - grid.first_step) / grid.width, numColumns(grid) - 1),
    row: inside(row, grid.ranks.length - 1),
  };
}

/** @param {Grid} grid @param {{column: number, row: number}} cell */
export function wordsOf(grid, { column, row }) {
  const { rank, node } = grid.ranks[row];
  const first = grid.first_step + column * grid.width;
  const last = first + grid.width - 1;
  const steps = first === last ? `step ${count(first)}` : `mean of steps ${count(first)} to ${count(last)}`;
  const value = grid.microseconds[row][column];
  const time = value === null ? "no measure" : seconds(value / 1e6);
  return `rank ${rank}${node ? ` on ${node}` : ""} · ${steps} · ${time}`;
}

// Which rows have room for their number beside them.
/** @param {number} numRows @param {number} height @param {number} least */
export function labelledRows(numRows, height, least) {
  if (numRows < 1) return [];
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((one) => (height / numRows) * one >= least) ?? 2048;
  return Array.from({ length: Math.ceil(numRows / every) }, (_, at) => at * every);
}

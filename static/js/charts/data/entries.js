// What is held of one name: {cursors: Map(run -> cursor), orders: Map(run -> number of the request), lines: Map(line
// key -> {run, labels, parts, tails})}. parts and tails: Map(attempt -> part); a tail was trained again by a later
// attempt.
import { lineKey } from "./names.js";
import { grown, partOf } from "./parts.js";

/** @returns {Entry} */
export const emptyEntry = () => ({ cursors: new Map(), orders: new Map(), lines: new Map() });

// Everything of the run anew. A line that stays keeps its place among the others. False where a later request was
// answered before.
/** @param {Entry} entry @param {string} run @param {{cursor: number, order?: number}} answer @param {Series[]} found */
export function replace(entry, run, { cursor, order = 0 }, found) {
  if (order < (entry.orders.get(run) ?? 0)) return false;
  entry.orders.set(run, order);
  entry.cursors.set(run, cursor);
  for (const line of entry.lines.values()) {
    if (line.run !== run) continue;
    line.parts = new Map();
    line.tails = new Map();
  }
  for (const series of found) {
    const line = lineOf(entry, run, series.labels);
    (series.superseded ? line.tails : line.parts).set(series.attempt, partOf(series));
  }
  for (const [key, line] of entry.lines)
    if (line.run === run && !line.parts.size && !line.tails.size) entry.lines.delete(key);
  return true;
}

// Adds a message of this name's points, and returns how many points its longest line has then; 0 when all was there
// already, and null when something lies between.
/** @param {Entry} entry @param {string} run @param {{cursor: number, from: number, series: Series[]}} message */
export function append(entry, run, message) {
  const cursor = entry.cursors.get(run) ?? 0;
  if (message.cursor <= cursor) return 0;
  if (message.from < cursor) return null;
  let longest = 0;
  for (const series of message.series) {
    const { parts } = lineOf(entry, run, series.labels);
    const part = grown(parts.get(series.attempt), partOf(series));
    parts.set(series.attempt, part);
    longest = Math.max(longest, part.step.length);
  }
  return longest;
}

/** @param {Entry} entry @param {string} run */
export function dropRun(entry, run) {
  entry.cursors.delete(run);
  entry.orders.delete(run);
  for (const [key, line] of entry.lines) if (line.run === run) entry.lines.delete(key);
}

/** @param {Entry} entry @param {string} run @param {Labels | undefined} labels @returns {HeldLine} */
function lineOf({ lines }, run, labels) {
  const key = lineKey(run, labels);
  const line = lines.get(key) ?? { run, labels: labels ?? {}, parts: new Map(), tails: new Map() };
  lines.set(key, line);
  return line;
}

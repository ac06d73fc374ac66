// The stretch of steps in view, which the tabs of one run share while its page is open in this browser tab.
import { store, stored } from "./stored.js";

/** @param {string} run */
const keyOf = (run) => `zoom ${run}`;

/** @param {string} run @returns {[number, number] | null} */
export function keptZoom(run) {
  const kept = stored("sessionStorage", keyOf(run));
  const [from, to] = Array.isArray(kept) ? kept : [];
  return Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
}

/** @param {string} run @param {[number, number] | null | undefined} range */
export function keepZoom(run, range) {
  store("sessionStorage", keyOf(run), range ?? null);
}

// The stretch of steps in view, which the tabs of one run share while its page is open in this browser tab.

/** @param {string} run */
const keyOf = (run) => `zoom ${run}`;

/** @param {string} run @returns {[number, number] | null} */
export function keptZoom(run) {
  try {
    const [from, to] = JSON.parse(sessionStorage.getItem(keyOf(run)) ?? "[]");
    return Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
  } catch {
    return null; // storage is off, or somebody wrote other things there
  }
}

/** @param {string} run @param {[number, number] | null | undefined} range */
export function keepZoom(run, range) {
  try {
    if (range) sessionStorage.setItem(keyOf(run), JSON.stringify(range));
    else sessionStorage.removeItem(keyOf(run));
  } catch {
    // Storage is off: each tab then has its own.
  }
}

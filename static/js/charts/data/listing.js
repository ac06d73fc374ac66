// Asks the server which series the runs have; what does not come now is asked for again.
import { MAX_RUNS } from "./batches.js";
import { pauseMs } from "./loader.js";
import { seriesOf } from "./names.js";

export class Listing {
  /** @param {{onItems: (items: any[]) => void, onGone: (run: string) => void}} on */
  constructor({ onItems, onGone }) {
    this.onItems = onItems;
    this.onGone = onGone;
    /** @type {Map<string, number>} */
    this.timers = new Map(); // run -> until it is asked again
    /** @type {Map<string, number>} */
    this.tries = new Map();
    this.ending = new AbortController();
  }

  /** Returns when they were asked for, whatever came of it. @param {string[]} runs */
  async ask(runs) {
    for (let at = 0; at < runs.length; at += MAX_RUNS) await this.load(runs.slice(at, at + MAX_RUNS));
  }

  /** @param {string} run @param {number} delayMs */
  soon(run, delayMs) {
    if (this.timers.has(run)) return;
    const then = () => {
      this.timers.delete(run);
      this.ask([run]);
    };
    this.timers.set(run, setTimeout(then, delayMs));
  }

  /** @param {string} run */
  drop(run) {
    clearTimeout(this.timers.get(run));
    this.timers.delete(run);
    this.tries.delete(run);
  }

  close() {
    this.ending.abort();
    this.timers.forEach(clearTimeout);
  }

  /** @param {string[]} runs @returns {Promise<void>} */
  async load(runs) {
    try {
      const items = await seriesOf(runs, this.ending.signal);
      for (const run of runs) this.tries.delete(run);
      this.onItems(items);
    } catch (caught) {
      const error = /** @type {Error & {status?: number}} */ (caught);
      if (this.ending.signal.aborted) return;
      // One of them is not there any more; the answer does not say which.
      if (error.status === 404) {
        if (runs.length === 1) return this.onGone(runs[0]);
        await Promise.all(runs.map((run) => this.load([run])));
        return;
      }
      console.warn("the list of series did not come", error);
      for (const run of runs) {
        const tries = this.tries.get(run) ?? 0;
        this.tries.set(run, tries + 1);
        this.soon(run, pauseMs(tries));
      }
    }
  }
}

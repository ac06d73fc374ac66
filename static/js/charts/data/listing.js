// Asks the server which series the runs have; what does not come now is asked for again. Of very many the first come,
// and others when they are looked for.
import { MAX_RUNS } from "./batches.js";
import { pauseMs } from "./loader.js";
import { seriesOf } from "./names.js";

const MOST = 5000; // series of a run: all of a hundred times as many would take a page seconds
const MOST_OF_EACH = 200; // of each of several
const MOST_FOUND = 1000;

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
    /** @type {Set<string>} */
    this.partial = new Set(); // runs of which there are more than came
    /** @type {Map<string, number>} */
    this.found = new Map(); // what was looked for -> how many came
  }

  get isPartial() {
    return this.partial.size > 0;
  }

  // Whether there may be more that were looked for with these words.
  /** @param {string} words */
  isCut(words) {
    return this.isPartial && (this.found.get(words) ?? MOST_FOUND) >= MOST_FOUND;
  }

  /** Asks for those that have the words, or these names. @param {string[]} runs @param {string | string[]} wanted */
  async find(runs, wanted) {
    if (!this.isPartial || !wanted.length || this.found.has(`${wanted}`)) return;
    /** @type {[string, string][]} */
    const those = typeof wanted === "string" ? [["match", wanted]] : wanted.map((name) => ["name", name]);
    try {
      const items = await seriesOf(runs.slice(0, MAX_RUNS), [...those, ["limit", `${MOST_FOUND}`]], this.ending.signal);
      this.found.set(`${wanted}`, items.length);
      this.onItems(items);
    } catch (error) {
      if (!this.ending.signal.aborted) console.warn("the names did not come", error);
    }
  }

  /** Returns when they were asked for, whatever came of it. @param {string[]} runs */
  async ask(runs) {
    this.found.clear(); // of other runs, or of what they had
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
    this.partial.delete(run);
  }

  close() {
    this.ending.abort();
    this.timers.forEach(clearTimeout);
  }

  /** @param {string[]} runs @returns {Promise<void>} */
  async load(runs) {
    try {
      const most = MOST + MOST_OF_EACH * (runs.length - 1);
      const items = await seriesOf(runs, [["limit", `${most + 1}`]], this.ending.signal);
      for (const run of items.length > most ? runs : []) this.partial.add(run);
      for (const run of runs) this.tries.delete(run);
      this.onItems(items.slice(0, most));
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

// Asks the server which series the runs have, a few runs at a time; what does not come now is asked for again.
import { seriesOf } from "./names.js";

const AT_ONCE = 6; // a browser has no more connections to a server
const PAUSE_MS = 3000; // before the first repetition; each is twice as long, up to a minute
const MAX_PAUSE_MS = 60_000;

export class Listing {
  constructor({ onItems, onGone }) {
    Object.assign(this, { onItems, onGone });
    this.waiting = new Set(); // runs
    this.timers = new Map(); // run -> until it is asked again
    this.tries = new Map();
    this.num = 0;
    this.ending = new AbortController();
  }

  // Returns when all of them were asked for, whatever came of it.
  async ask(runs) {
    for (const run of runs) this.waiting.add(run);
    await Promise.all(Array.from({ length: Math.min(this.waiting.size, AT_ONCE - this.num) }, () => this.work()));
  }

  soon(run, delayMs) {
    if (this.timers.has(run)) return;
    const then = () => {
      this.timers.delete(run);
      this.ask([run]);
    };
    this.timers.set(run, setTimeout(then, delayMs));
  }

  drop(run) {
    this.waiting.delete(run);
    clearTimeout(this.timers.get(run));
    this.timers.delete(run);
  }

  close() {
    this.ending.abort();
    this.waiting.clear();
    this.timers.forEach(clearTimeout);
  }

  async work() {
    this.num += 1;
    for (const run of this.waiting) {
      this.waiting.delete(run);
      await this.one(run);
    }
    this.num -= 1;
  }

  async one(run) {
    try {
      const items = await seriesOf(run, this.ending.signal);
      this.tries.delete(run);
      this.onItems(run, items);
    } catch (error) {
      if (this.ending.signal.aborted) return;
      if (error.status === 404) return this.onGone(run);
      console.warn("the list of series did not come", error);
      const tries = this.tries.get(run) ?? 0;
      this.tries.set(run, tries + 1);
      this.soon(run, Math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ** tries));
    }
  }
}

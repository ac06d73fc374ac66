// Loads points: what is asked for within a moment shares requests, what failed is asked for again, what is too much in
// parts.
import { addressOf, batches, halves } from "./batches.js";
import { fetchColumns, getJson } from "./columns.js";

const MAX_TRIES = 20;

/** Before a repetition: 3 s, then each time twice as long, up to a minute. @param {number} tries */
export const pauseMs = (tries) => Math.min(60_000, 3000 * 2 ** tries);

/**
 * @typedef {object} LoaderOptions
 * @property {(batch: Batch) => void} [onSend] then comes one of the next two
 * @property {(batch: Batch, answer: any) => void} onAnswer
 * @property {(batch: Batch) => void} [onFail]
 * @property {(run: string) => void} onGone
 * @property {() => number} points how many of a line
 * @property {(run: string, name: string) => number} numLines
 * @property {(run: string, name: string) => boolean | undefined} isWanted whether it still is
 * @property {() => Partial<Batch>} [frame] what else a batch is asked with
 */

export class Loader {
  /** @param {LoaderOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {Map<string, Set<string>>} */
    this.due = new Map(); // run -> Set(names)
    this.timer = 0;
    this.num = 0; // of requests
    /** @type {Set<() => void>} */
    this.retrying = new Set(); // what is done when a pause is over
    /** @type {Set<number>} */
    this.timers = new Set();
    this.ending = new AbortController();
  }

  /** @param {string} run @param {string} name @param {number} [delayMs] */
  ask(run, name, delayMs = 20) {
    const names = this.due.get(run) ?? new Set();
    this.due.set(run, names.add(name));
    this.timer ||= setTimeout(() => this.flush(), delayMs);
  }

  /** @param {string} name */
  dropName(name) {
    for (const names of this.due.values()) names.delete(name);
  }

  close() {
    this.ending.abort();
    clearTimeout(this.timer);
    this.timers.forEach(clearTimeout);
  }

  flush() {
    this.timer = 0;
    const found = batches(this.due, this.options.points(), this.options.numLines);
    this.due.clear();
    for (const batch of found) this.load({ ...batch, ...this.options.frame?.() });
  }

  /** @param {Batch} asked */
  async load(asked) {
    const batch = { ...asked, order: (this.num += 1) };
    this.options.onSend?.(batch);
    let answer;
    try {
      answer = await fetchColumns(addressOf(batch), this.ending.signal);
    } catch (error) {
      this.options.onFail?.(batch);
      if (!this.ending.signal.aborted) this.recover(batch, /** @type {Error} */ (error));
      return;
    }
    this.options.onAnswer(batch, answer);
  }

  /** @param {Batch} batch @param {Error & {status?: number}} error @returns {unknown} */
  recover(batch, error) {
    if (error.status === 404) return this.findGone(batch);
    const smaller = error.status === 422 ? halves(batch) : [];
    if (smaller.length) return smaller.forEach((one) => this.load({ ...batch, ...one }));
    console.warn("series data did not come", error);
    this.later(batch);
  }

  /** @param {Batch} batch */
  later(batch) {
    const { tries = 0 } = batch;
    if (tries >= MAX_TRIES) return;
    const again = () => {
      clearTimeout(timer);
      this.timers.delete(timer);
      this.retrying.delete(again);
      const runs = batch.runs.filter((run) => batch.names.some((name) => this.options.isWanted(run, name)));
      const names = batch.names.filter((name) => runs.some((run) => this.options.isWanted(run, name)));
      if (names.length) this.load({ ...batch, runs, names, tries: tries + 1 });
    };
    const timer = setTimeout(again, pauseMs(tries));
    this.retrying.add(again);
    this.timers.add(timer);
  }

  // The server is there again: what waits to be asked for is asked for now.
  retryNow() {
    for (const again of [...this.retrying]) again();
  }

  // One of the runs is not there any more, or may not be seen any more; the answer does not say which.
  /** @param {Batch} batch */
  async findGone(batch) {
    /** @param {string} run */
    const isGone = (run) =>
      getJson(`/api/v1/runs/${encodeURIComponent(run)}`, this.ending.signal).then(
        () => false,
        ({ status }) => status === 404 || status === 403,
      );
    const gone = batch.runs.length > 1 ? await Promise.all(batch.runs.map(isGone)) : [true];
    if (this.ending.signal.aborted) return;
    batch.runs.forEach((run, at) => gone[at] && this.options.onGone(run));
    const left = batch.runs.filter((_, at) => !gone[at]);
    if (left.length === batch.runs.length)
      this.later(batch); // it is there again
    else if (left.length) this.load({ ...batch, runs: left });
  }
}

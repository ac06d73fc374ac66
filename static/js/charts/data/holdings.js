// The points that are held, by name: how answers replace them and how messages are added to them.
import { append, dropRun, emptyEntry, replace } from "./entries.js";
import { Late } from "./late.js";

/**
 * @typedef {object} HoldingsOptions
 * @property {(name: string) => void} onData its points changed
 * @property {(run: string, name: string) => boolean} isWanted
 * @property {(run: string, name: string) => void} askAgain
 * @property {(run: string, cursor: number) => boolean} continues whether its messages do
 * @property {() => number} limit how many points a line may grow to
 */

export class Holdings {
  /** @param {HoldingsOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {Map<string, Entry>} */
    this.loaded = new Map(); // name -> entry (entries.js)
    this.late = new Late();
  }

  /** @param {Batch} batch @param {SeriesAnswer} answer */
  take(batch, { cursors, series }) {
    const found = Map.groupBy(series, (one) => `${one.run} ${one.name}`);
    for (const name of batch.names) {
      const runs = batch.runs.filter((run) => this.options.isWanted(run, name));
      if (!runs.length) continue;
      if (!this.loaded.has(name)) this.loaded.set(name, emptyEntry());
      for (const run of runs) this.takeOne(batch, run, name, cursors[run], found.get(`${run} ${name}`) ?? []);
      this.options.onData(name);
    }
    this.late.end(batch);
  }

  /** @param {Batch} batch @param {string} run @param {string} name @param {number} cursor @param {Series[]} series */
  takeOne({ order }, run, name, cursor, series) {
    const entry = this.loaded.get(name);
    if (!entry || !replace(entry, run, { cursor, order }, series)) return;
    for (const message of this.late.of(run, name)) this.add(run, name, message);
    if (!this.options.continues(run, cursor)) this.options.askAgain(run, name);
  }

  /** @param {string} run @param {SeriesMessage} message */
  receive(run, { from, cursor, series }) {
    for (const [name, own] of Map.groupBy(series, (one) => one.name)) {
      const message = { from, cursor, series: own };
      if (this.late.keep(run, name, message) || !this.loaded.get(name)?.cursors.has(run)) continue;
      if (this.add(run, name, message)) this.options.onData(name);
    }
  }

  // False when it was there already, or is asked for again as something lies between.
  /** @param {string} run @param {string} name @param {SeriesMessage} message */
  add(run, name, message) {
    const entry = this.loaded.get(name);
    if (!entry) return false;
    const longest = append(entry, run, message);
    if (longest === null || longest > this.options.limit()) this.options.askAgain(run, name);
    return Boolean(longest);
  }

  /** @param {string} run */
  dropRun(run) {
    for (const [name, entry] of this.loaded) {
      dropRun(entry, run);
      this.options.onData(name);
    }
  }
}

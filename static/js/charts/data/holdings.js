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
  constructor({ onData, isWanted, askAgain, continues, limit }) {
    this.onData = onData;
    this.isWanted = isWanted;
    this.askAgain = askAgain;
    this.continues = continues;
    this.limit = limit;
    /** @type {Map<string, Entry>} */
    this.loaded = new Map(); // name -> entry (entries.js)
    this.late = new Late();
  }

  /** @param {Batch} batch */
  begin(batch) {
    this.late.begin(batch);
  }

  /** @param {Batch} batch */
  fail(batch) {
    this.late.end(batch);
  }

  /** @param {Batch} batch @param {SeriesAnswer} answer */
  take(batch, { cursors, series }) {
    const found = grouped(series, (one) => `${one.run} ${one.name}`);
    for (const name of batch.names) {
      const runs = batch.runs.filter((run) => this.isWanted(run, name));
      if (!runs.length) continue;
      if (!this.loaded.has(name)) this.loaded.set(name, emptyEntry());
      for (const run of runs) this.takeOne(batch, run, name, cursors[run], found.get(`${run} ${name}`) ?? []);
      this.onData(name);
    }
    this.late.end(batch);
  }

  /** @param {Batch} batch @param {string} run @param {string} name @param {number} cursor @param {Series[]} series */
  takeOne({ order }, run, name, cursor, series) {
    const entry = this.loaded.get(name);
    if (!entry || !replace(entry, run, { cursor, order }, series)) return;
    for (const message of this.late.of(run, name)) this.add(run, name, message);
    if (!this.continues(run, cursor)) this.askAgain(run, name);
  }

  /** @param {string} run @param {SeriesMessage} message */
  receive(run, { from, cursor, series }) {
    for (const [name, own] of grouped(series, (one) => one.name)) {
      const message = { from, cursor, series: own };
      if (this.late.keep(run, name, message) || !this.loaded.get(name)?.cursors.has(run)) continue;
      if (this.add(run, name, message)) this.onData(name);
    }
  }

  // False when it was there already, or is asked for again as something lies between.
  /** @param {string} run @param {string} name @param {SeriesMessage} message */
  add(run, name, message) {
    const entry = this.loaded.get(name);
    if (!entry) return false;
    const longest = append(entry, run, message);
    if (longest === null || longest > this.limit()) this.askAgain(run, name);
    return Boolean(longest);
  }

  /** @param {string} name */
  forget(name) {
    this.loaded.delete(name);
  }

  /** @param {string} run */
  dropRun(run) {
    for (const [name, entry] of this.loaded) {
      dropRun(entry, run);
      this.onData(name);
    }
  }
}

/** @param {Series[]} all @param {(one: Series) => string} keyOf */
function grouped(all, keyOf) {
  /** @type {Map<string, Series[]>} */
  const groups = new Map();
  for (const one of all) {
    const key = keyOf(one);
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push(one);
  }
  return groups;
}

// The points of the runs as the page knows them: loaded when a chart asks, then grown by what the streams bring.
import { Holdings } from "./holdings.js";
import { Listing } from "./listing.js";
import { Loader } from "./loader.js";
import { Names } from "./names.js";
import { Subscriptions } from "./subscriptions.js";

const POINTS = 1500; // of a line
const POINTS_OF_MANY = 600;
const POINTS_OF_VERY_MANY = 150; // of a line that is one of many in a band
const TOO_MANY = 3; // times as many: a line that grew past it is asked for again, in buckets
const FEW_RUNS = 4;
const VERY_MANY_RUNS = 100; // as chart_runs.py has it: the page came with the name of every series
const AGAIN_MS = 200;
const ignore = () => {};

/** @typedef {{id: string, start?: number, isGone?: boolean}} StoreRun */
/**
 * @typedef {object} StoreOptions
 * @property {() => void} [onNames]
 * @property {(name: string) => void} [onData]
 * @property {(run: string) => void} [onGone]
 * @property {(run: string) => RunStream} [streamOf]
 */

export class Store {
  // runs: [{id, start}], start in Unix seconds; onNames(): there are other series than before; onData(name): its
  // points changed; onGone(run): it was deleted; streamOf(run) -> {on(type, listener) -> stop, continues(cursor)}.
  /** @param {StoreRun[]} runs @param {StoreOptions} [options] */
  constructor(runs, { onNames = ignore, onData = ignore, onGone = ignore, streamOf } = {}) {
    this.onGone = onGone;
    /** @type {Map<string, StoreRun>} */
    this.runs = new Map(); // id -> {id, start, isGone}
    this.known = new Names(onNames);
    /** @type {Set<string>} */
    this.wanted = new Set();
    this.isListed = false;
    /** @type {(run: string, name: string) => boolean} */
    const isWanted = (run, name) => this.wanted.has(name) && this.runs.has(run);
    this.held = new Holdings({
      onData,
      isWanted,
      askAgain: (run, name) => this.ask(run, name, AGAIN_MS),
      continues: (run, cursor) => this.streams.continues(run, cursor),
      limit: () => TOO_MANY * this.points,
    });
    this.listing = new Listing({ onItems: (items) => this.addNames(items), onGone: (run) => this.markGone(run) });
    this.loader = new Loader({
      onSend: (batch) => this.held.late.begin(batch),
      onAnswer: (batch, answer) => this.take(batch, answer),
      onFail: (batch) => this.held.late.end(batch),
      onGone: (run) => this.markGone(run),
      points: () => this.points,
      numLines: (run, name) => this.numLines(run, name),
      isWanted,
    });
    this.streams = new Subscriptions(streamOf, {
      points: (run, message) => this.receive(run, message),
      refetch: (run) => this.reload(run),
      again: (run) => this.again(run),
      gone: (run) => this.markGone(run),
    });
    this.setRuns(runs);
  }

  get names() {
    return this.known.all;
  }

  // name -> entry (entries.js)
  get loaded() {
    return this.held.loaded;
  }

  // Whether the list of a run's series is still missing.
  get isUnanswered() {
    return this.listing.tries.size > 0;
  }

  get points() {
    if (this.runs.size > VERY_MANY_RUNS) return POINTS_OF_VERY_MANY;
    return this.runs.size > FEW_RUNS ? POINTS_OF_MANY : POINTS;
  }

  close() {
    this.loader.close();
    this.listing.close();
    this.known.close();
    this.streams.closeAll();
  }

  /** @param {string} run @param {string} name */
  numLines(run, name) {
    return this.known.count(run, name);
  }

  /** Other runs were chosen: loads what the wanted names lack, drops what is gone. @param {StoreRun[]} runs */
  setRuns(runs) {
    const before = this.runs;
    this.runs = new Map(runs.map((run) => [run.id, { ...before.get(run.id), ...run }]));
    for (const id of before.keys()) {
      if (this.runs.has(id)) continue;
      this.stopLoading(id);
      this.known.drop(id);
      this.held.dropRun(id);
    }
    const joined = [...this.runs.keys()].filter((id) => !before.has(id));
    for (const id of joined) {
      this.streams.open(id);
      for (const name of this.wanted) this.ask(id, name);
    }
    if (this.isListed && joined.length) this.list(joined);
  }

  /** The run was deleted: what was drawn of it stays, until other runs are chosen. @param {string} id */
  markGone(id) {
    const run = this.runs.get(id);
    if (!run || run.isGone) return;
    run.isGone = true;
    this.stopLoading(id);
    this.onGone(id);
  }

  /** @param {string} id */
  stopLoading(id) {
    this.streams.close(id);
    this.loader.due.delete(id);
    this.listing.drop(id);
  }

  async list(ids = [...this.runs.keys()]) {
    this.isListed = true;
    if (ids.length > VERY_MANY_RUNS) return;
    await this.listing.ask(ids.filter((id) => !this.runs.get(id)?.isGone));
  }

  /** Of more series than were listed, those with these words or names. @param {string | string[]} wanted */
  find(wanted) {
    return this.listing.find([...this.runs.keys()], wanted);
  }

  /** Ask for a name's points; the charts that come into view together share requests. @param {string} name */
  want(name) {
    if (this.wanted.has(name)) return;
    this.wanted.add(name);
    for (const id of this.runs.keys()) this.ask(id, name);
  }

  /** It is out of view. @param {string} name */
  forget(name) {
    this.wanted.delete(name);
    this.loaded.delete(name);
    this.loader.dropName(name);
  }

  /** The server is there again: what did not come is asked for now. @param {string} id */
  again(id) {
    this.list([id]);
    this.loader.retryNow();
    for (const name of this.wanted) if (!this.loaded.get(name)?.cursors.has(id)) this.ask(id, name, AGAIN_MS);
  }

  /** @param {string} id */
  reload(id) {
    for (const name of this.wanted) this.ask(id, name, AGAIN_MS);
    this.listing.soon(id, 1000); // what was missed may have new series
  }

  /** @param {string} id @param {string} name @param {number} [delayMs] */
  ask(id, name, delayMs) {
    const run = this.runs.get(id);
    if (run && !run.isGone) this.loader.ask(id, name, delayMs);
  }

  /** @param {Batch} batch @param {SeriesAnswer} answer */
  take(batch, answer) {
    this.addNames(answer.series);
    this.held.take(batch, answer);
  }

  /** @param {string} run @param {SeriesMessage} message */
  receive(run, message) {
    this.addNames(message.series.map(({ name, labels }) => ({ run, name, labels })));
    this.held.receive(run, message);
  }

  /** @param {{run: string, name: string, labels?: Labels | null}[]} series */
  addNames(series) {
    for (const { run, name, labels } of series) if (this.runs.has(run)) this.known.add(run, name, labels);
  }
}

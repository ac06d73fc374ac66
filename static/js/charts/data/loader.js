// Loads points: what is asked for within a moment shares requests, what failed is asked for again, what is too much in
// parts.
import { addressOf, batches, halves } from "./batches.js";
import { fetchColumns, getJson } from "./columns.js";

const PAUSE_MS = 3000; // before the first repetition; each is twice as long, up to a minute
const MAX_PAUSE_MS = 60_000;
const MAX_TRIES = 20;
const ignore = () => {};

export class Loader {
  // onSend(batch), then onAnswer(batch, answer) or onFail(batch); onGone(run); points(): how many of a line;
  // numLines(run, name). isWanted(run, name): whether it still is; frame(): what else a batch is asked with.
  constructor({ onSend = ignore, onAnswer, onFail = ignore, onGone, points, numLines, isWanted, frame = () => ({}) }) {
    Object.assign(this, { onSend, onAnswer, onFail, onGone, points, numLines, isWanted, frame });
    this.due = new Map(); // run -> Set(names)
    this.timer = 0;
    this.num = 0; // of requests
    this.retrying = new Set(); // what is done when a pause is over
    this.timers = new Set();
    this.ending = new AbortController();
  }

  ask(run, name, delayMs = 20) {
    if (!this.due.has(run)) this.due.set(run, new Set());
    this.due.get(run).add(name);
    this.timer ||= setTimeout(() => this.flush(), delayMs);
  }

  dropRun(run) {
    this.due.delete(run);
  }

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
    const found = batches(this.due, this.points(), this.numLines);
    this.due.clear();
    for (const batch of found) this.load({ ...batch, ...this.frame() });
  }

  async load(asked) {
    const batch = { ...asked, order: (this.num += 1) };
    this.onSend(batch);
    let answer;
    try {
      answer = await fetchColumns(addressOf(batch), this.ending.signal);
    } catch (error) {
      this.onFail(batch);
      if (!this.ending.signal.aborted) this.recover(batch, error);
      return;
    }
    this.onAnswer(batch, answer);
  }

  recover(batch, error) {
    if (error.status === 404) return this.findGone(batch);
    const smaller = error.status === 422 ? halves(batch) : [];
    if (smaller.length) return smaller.forEach((one) => this.load({ ...batch, ...one }));
    console.warn("series data did not come", error);
    this.later(batch);
  }

  later(batch) {
    const { tries = 0 } = batch;
    if (tries >= MAX_TRIES) return;
    const again = () => {
      clearTimeout(timer);
      this.timers.delete(timer);
      this.retrying.delete(again);
      const runs = batch.runs.filter((run) => batch.names.some((name) => this.isWanted(run, name)));
      const names = batch.names.filter((name) => runs.some((run) => this.isWanted(run, name)));
      if (names.length) this.load({ ...batch, runs, names, tries: tries + 1 });
    };
    const timer = setTimeout(again, Math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ** tries));
    this.retrying.add(again);
    this.timers.add(timer);
  }

  // The server is there again: what waits to be asked for is asked for now.
  hurry() {
    for (const again of [...this.retrying]) again();
  }

  // One of the runs is not there any more, or may not be seen any more; the answer does not say which.
  async findGone(batch) {
    const isGone = (run) =>
      getJson(`/api/v1/runs/${encodeURIComponent(run)}`, this.ending.signal).then(
        () => false,
        ({ status }) => status === 404 || status === 403,
      );
    const gone = batch.runs.length > 1 ? await Promise.all(batch.runs.map(isGone)) : [true];
    if (this.ending.signal.aborted) return;
    batch.runs.forEach((run, at) => gone[at] && this.onGone(run));
    const left = batch.runs.filter((_, at) => !gone[at]);
    if (left.length === batch.runs.length)
      this.later(batch); // it is there again
    else if (left.length) this.load({ ...batch, runs: left });
  }
}

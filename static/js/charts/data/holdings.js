// The points that are held, by name: how answers replace them and how messages are added to them.
import { append, dropRun, emptyEntry, replace } from "./entries.js";
import { Late } from "./late.js";

export class Holdings {
  // onData(name): its points changed; isWanted(run, name); askAgain(run, name); continues(run, cursor): whether its
  // messages do; limit(): how many points a line may grow to.
  constructor({ onData, isWanted, askAgain, continues, limit }) {
    Object.assign(this, { onData, isWanted, askAgain, continues, limit });
    this.loaded = new Map(); // name -> entry (entries.js)
    this.late = new Late();
  }

  begin(batch) {
    this.late.begin(batch);
  }

  fail(batch) {
    this.late.end(batch);
  }

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

  takeOne({ order }, run, name, cursor, series) {
    if (!replace(this.loaded.get(name), run, { cursor, order }, series)) return;
    for (const message of this.late.of(run, name)) this.add(run, name, message);
    if (!this.continues(run, cursor)) this.askAgain(run, name);
  }

  receive(run, { from, cursor, series }) {
    for (const [name, own] of grouped(series, (one) => one.name)) {
      const message = { from, cursor, series: own };
      if (this.late.keep(run, name, message) || !this.loaded.get(name)?.cursors.has(run)) continue;
      if (this.add(run, name, message)) this.onData(name);
    }
  }

  // False when it was there already, or is asked for again as something lies between.
  add(run, name, message) {
    const longest = append(this.loaded.get(name), run, message);
    if (longest === null || longest > this.limit()) this.askAgain(run, name);
    return Boolean(longest);
  }

  forget(name) {
    this.loaded.delete(name);
  }

  dropRun(run) {
    for (const [name, entry] of this.loaded) {
      dropRun(entry, run);
      this.onData(name);
    }
  }
}

function grouped(all, keyOf) {
  const groups = new Map();
  for (const one of all) {
    const key = keyOf(one);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(one);
  }
  return groups;
}

// Messages that come while the points of a name are on the way: kept until those are there, as they may not hold them
// yet.
export class Late {
  constructor() {
    /** @type {Map<string, {messages: SeriesMessage[], num: number}>} */
    this.all = new Map(); // "run name" -> {messages, num}: num requests are on the way
  }

  /** @param {Batch} batch */
  begin({ runs, names }) {
    for (const place of placesOf(runs, names)) {
      const waiting = this.all.get(place) ?? { messages: [], num: 0 };
      this.all.set(place, waiting);
      waiting.num += 1;
    }
  }

  /** @param {Batch} batch */
  end({ runs, names }) {
    for (const place of placesOf(runs, names)) {
      const waiting = this.all.get(place);
      if (waiting && (waiting.num -= 1) <= 0) this.all.delete(place);
    }
  }

  // True when the message was kept: its points are on the way, or will be added behind them.
  /** @param {string} run @param {string} name @param {SeriesMessage} message */
  keep(run, name, message) {
    const waiting = this.all.get(`${run} ${name}`);
    waiting?.messages.push(message);
    return Boolean(waiting);
  }

  /** @param {string} run @param {string} name */
  of(run, name) {
    return this.all.get(`${run} ${name}`)?.messages ?? [];
  }
}

/** @param {string[]} runs @param {string[]} names */
const placesOf = (runs, names) => runs.flatMap((run) => names.map((name) => `${run} ${name}`));

// While charts are zoomed in, lines that came as buckets get the points of that window, and keep their buckets outside
// it.
import { Loader } from "./loader.js";
import { axisOf, lineKey } from "./names.js";
import { partOf, spliced } from "./parts.js";

const SETTLE_MS = 220;

export class Windows {
  // onData(name): its window arrived or went; axisFor(name): the axis that its chart has.
  constructor(store, onData, axisFor = (name) => axisOf(name, "step")) {
    this.store = store;
    this.onData = onData;
    this.axisFor = axisFor;
    this.ranges = new Map(); // axis -> [from, to], as the plots have it
    // name -> {axis, from, to, orders: Map(run -> of the store's answer), origins: {run: its start}, parts: Map("line
    // attempt" -> points)}
    this.held = new Map();
    this.timers = new Map();
    this.pending = new Map(); // "run name" -> the window that is on the way
    this.spliced = new WeakMap(); // finer points -> {part, start, whole}
    this.loaders = new Map(["step", "relative", "time"].map((axis) => [axis, this.loaderOf(axis)]));
  }

  range(axis) {
    return this.ranges.get(axis) ?? null;
  }

  // [from, to] on the axis; null: everything.
  set(axis, range) {
    if (String(range) === String(this.range(axis))) return;
    if (range) this.ranges.set(axis, range);
    else this.ranges.delete(axis);
    if (!range) return this.clear(axis);
    for (const name of this.held.keys()) if (!this.store.loaded.has(name)) this.held.delete(name);
    const settled = () => {
      this.timers.delete(axis);
      for (const name of this.store.loaded.keys()) if (this.axisFor(name) === axis) this.need(name);
    };
    // During a zoom finer points come, too.
    if (!this.timers.has(axis)) this.timers.set(axis, setTimeout(settled, SETTLE_MS));
  }

  close() {
    this.timers.forEach(clearTimeout);
    this.loaders.forEach((loader) => loader.close());
  }

  // The entry as the store has it, with the window's points in the place of its buckets.
  entry(name) {
    const entry = this.store.loaded.get(name);
    const window = this.held.get(name);
    if (!entry) return entry;
    if (!this.timers.has(this.axisFor(name))) this.need(name); // it came into view, or was loaded anew
    if (!window || window.axis !== this.axisFor(name)) return entry;
    const lines = new Map();
    for (const [key, line] of entry.lines) {
      const stretch = stretchOf(window, line.run);
      const finer = (all, isTail) => {
        const fine = (attempt) => window.parts.get(placeOf(key, attempt, isTail));
        return new Map([...all].map(([attempt, part]) => [attempt, this.finer(part, fine(attempt), stretch)]));
      };
      lines.set(key, { ...line, parts: finer(line.parts, false), tails: finer(line.tails, true) });
    }
    return { ...entry, lines };
  }

  finer(part, fine, stretch) {
    if (!part.min || !fine) return part;
    const known = this.spliced.get(fine);
    if (known?.part === part) return known.whole;
    const whole = spliced(part, fine, stretch);
    this.spliced.set(fine, { part, whole });
    return whole;
  }

  // Asks for the runs whose lines are coarser than they could be in the window that is looked at.
  need(name) {
    const axis = this.axisFor(name);
    const window = windowOf(axis, this.range(axis));
    const { lines, orders } = this.store.loaded.get(name);
    if (!window) return;
    for (const { run, parts, tails } of lines.values()) {
      const isCoarse = [...parts.values(), ...tails.values()].some((part) => part.min);
      const held = this.held.get(name);
      const isHeld = held && isSame(held, window) && held.orders.get(run) === orders.get(run);
      if (!isCoarse || isHeld || isSame(this.pending.get(`${run} ${name}`), window)) continue;
      this.pending.set(`${run} ${name}`, window);
      this.loaders.get(axis).ask(run, name);
    }
  }

  loaderOf(axis) {
    const end = ({ runs, names }) =>
      runs.forEach((run) => names.forEach((name) => this.pending.delete(`${run} ${name}`)));
    return new Loader({
      onAnswer: (batch, answer) => {
        end(batch);
        this.take(batch, answer);
      },
      onFail: end,
      onGone: () => {},
      points: () => 2 * this.store.points, // as the window is twice as wide as what is seen
      numLines: (run, name) => this.store.numLines(run, name),
      isWanted: (run, name) => this.store.loaded.get(name)?.cursors.has(run) && this.ranges.has(axis),
      frame: () => ({ window: windowOf(axis, this.range(axis)) }),
    });
  }

  /** @param {Batch} batch @param {SeriesAnswer} answer */
  take({ runs, names, window }, { series, origins = {} }) {
    if (!window) return;
    const range = this.range(window.axis);
    if (!range || !covers(window, range)) return; // somebody looks elsewhere by now
    for (const name of names) {
      let held = this.held.get(name);
      const isFiner =
        held?.axis === window.axis && covers(held, range) && held.to - held.from < window.to - window.from;
      if (isFiner || !this.store.loaded.has(name)) continue;
      if (!isSame(held, window)) held = { ...window, orders: new Map(), origins: {}, parts: new Map() };
      this.held.set(name, held);
      Object.assign(held.origins, origins);
      for (const run of runs) held.orders.set(run, this.store.loaded.get(name).orders.get(run));
    }
    for (const one of series) {
      const held = this.held.get(one.name);
      const place = placeOf(lineKey(one.run, one.labels), one.attempt, one.superseded);
      if (isSame(held, window)) held.parts.set(place, partOf(one));
    }
    names.forEach((name) => this.onData(name));
  }

  clear(axis) {
    const names = [...this.held].filter(([, window]) => window.axis === axis).map(([name]) => name);
    for (const name of names) this.held.delete(name);
    names.forEach((name) => this.onData(name));
  }
}

const placeOf = (key, attempt, isTail) => `${key} ${attempt} ${Boolean(isTail)}`;

// What is loaded: as much again on either side together, so that there is something to pan to.
/** @param {Axis} axis @param {Span | null} range @returns {AxisWindow | null} */
function windowOf(axis, range) {
  if (!range) return null;
  const half = (range[1] - range[0]) / 2;
  const [from, to] = [range[0] - half, range[1] + half];
  return axis === "step" ? { axis, from: Math.floor(from), to: Math.ceil(to) } : { axis, from, to };
}

// The window as the points of a run have it: in steps, or in Unix seconds.
/** @param {AxisWindow & {origins: Record<string, number>}} window @param {string} run
 * @returns {{axis: "step" | "time", from: number, to: number}} */
function stretchOf({ axis, from, to, origins }, run) {
  if (axis === "step") return { axis, from, to };
  const shift = axis === "relative" ? (origins[run] ?? 0) : 0;
  return { axis: "time", from: from + shift, to: to + shift };
}

/** @param {AxisWindow | undefined} one @param {AxisWindow} other */
const isSame = (one, other) => one?.axis === other.axis && one.from === other.from && one.to === other.to;

/** @param {{from: number, to: number}} window @param {Span} range */
const covers = ({ from, to }, range) => from <= range[0] && to >= range[1];

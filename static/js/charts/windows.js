// While charts are zoomed in, lines that came as buckets get the points of that window, and keep their buckets outside it.
import { fetchColumns } from "./columns.js";
import { namesIn } from "./names.js";
import { partOf, spliced } from "./parts.js";

const SETTLE_MS = 220;

export class Zoom {
  constructor(store, onData) {
    this.store = store;
    this.onData = onData; // called with a name whose window arrived
    this.range = null; // [from, to] in units of the axis, as the plots have it
    this.windows = new Map(); // name -> {from, to, parts: Map("labels attempt" -> columns)}
    this.timer = 0;
  }

  // axis: "step" or "time"; start: Unix seconds of the time axis' zero; isAlong(name): whether it has that axis; null clears.
  set(range, { axis, start, isAlong = () => true }) {
    clearTimeout(this.timer);
    if (String(range) === String(this.range)) return;
    this.range = range;
    this.timer = setTimeout(() => (range ? this.load(axis, axis === "time" ? range.map((x) => x + start) : range, isAlong) : this.clear()), SETTLE_MS);
  }

  clear() {
    const names = [...this.windows.keys()];
    this.windows.clear();
    names.forEach(this.onData);
  }

  async load(axis, [from, to], isAlong) {
    const names = [...this.store.loaded].filter(([name, { lines }]) => isAlong(name) && [...lines.values()].some(({ parts }) => [...parts.values()].some((part) => part.min)));
    if (!names.length) return;
    const wanted = this.range;
    const query = namesIn(names.slice(0, 60).map(([name]) => name));
    const bounds = axis === "step" ? [Math.floor(from), Math.ceil(to)] : [from, to];
    const data = await fetchColumns(`${this.store.api}/series/data?${query}&x=${axis}&from=${bounds[0]}&to=${bounds[1]}&attempts=all`).catch(() => null);
    if (!data || wanted !== this.range) return;
    for (const [name] of names) this.windows.set(name, { axis, from: bounds[0], to: bounds[1], parts: new Map() });
    for (const series of data.series) this.windows.get(series.name)?.parts.set(keyOf(series), partOf(series));
    names.forEach(([name]) => this.onData(name));
  }

  // The entry as the store has it, with the window's points in the place of its buckets.
  entry(name) {
    const entry = this.store.loaded.get(name);
    const window = this.windows.get(name);
    if (!window) return entry;
    const lines = new Map();
    for (const [key, { labels, parts, tails }] of entry.lines) {
      const finer = (all, superseded) =>
        new Map(
          [...all].map(([attempt, part]) => {
            const fine = window.parts.get(keyOf({ labels, attempt, superseded }));
            return [attempt, fine && part.min ? spliced(part, fine, window) : part];
          }),
        );
      lines.set(key, { labels, parts: finer(parts, false), tails: finer(tails, true) });
    }
    return { ...entry, lines };
  }
}

function keyOf({ labels, attempt, superseded }) {
  return `${JSON.stringify(labels)} ${attempt} ${Boolean(superseded)}`;
}

// While charts are zoomed in, lines that came as buckets get the points of that window, and keep their buckets outside it.
import { columns, getJson } from "./series.js";

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
    const query = names.slice(0, 60).map(([name]) => `name=${encodeURIComponent(name)}`).join("&");
    const bounds = axis === "step" ? [Math.floor(from), Math.ceil(to)] : [from, to];
    const data = await getJson(`${this.store.api}/series/data?${query}&x=${axis}&from=${bounds[0]}&to=${bounds[1]}`).catch(() => null);
    if (!data || wanted !== this.range) return;
    for (const [name] of names) this.windows.set(name, { axis, from: bounds[0], to: bounds[1], parts: new Map() });
    for (const part of data.series) {
      this.windows.get(part.name)?.parts.set(keyOf(part.labels, part.attempt), columns(part));
    }
    names.forEach(([name]) => this.onData(name));
  }

  // The entry as the store has it, with the window's points in the place of its buckets.
  entry(name) {
    const entry = this.store.loaded.get(name);
    const window = this.windows.get(name);
    if (!window) return entry;
    const lines = new Map();
    for (const [key, { labels, parts }] of entry.lines) {
      const merged = new Map();
      for (const [attempt, part] of parts) {
        const fine = window.parts.get(keyOf(labels, attempt));
        merged.set(attempt, fine && part.min ? splice(part, fine, window) : part);
      }
      lines.set(key, { labels, parts: merged });
    }
    return { ...entry, lines };
  }
}

function keyOf(labels, attempt) {
  return `${JSON.stringify(labels)} ${attempt}`;
}

function splice(part, fine, { axis, from, to }) {
  const along = part[axis];
  const before = along.findIndex((x) => x >= from);
  const after = along.findIndex((x) => x > to);
  const head = before < 0 ? along.length : before;
  const tail = after < 0 ? along.length : after;
  const last = fine[axis].at(-1);
  // What was pushed after the window was read lies inside it, and behind its last point.
  const newer = last === undefined ? tail : Math.max(head, along.findIndex((x) => x > last));
  const join = (name, own) => [...part[name].slice(0, head), ...own, ...part[name].slice(last !== undefined && newer < tail ? newer : tail)];
  return {
    step: join("step", fine.step),
    time: join("time", fine.time),
    value: join("value", fine.value),
    min: join("min", fine.min ?? fine.value),
    max: join("max", fine.max ?? fine.value),
    last: join("last", fine.last ?? fine.value),
  };
}

// Which series the runs have: as the server lists them, and as messages bring new ones.
import { getJson } from "./columns.js";

export class Names {
  constructor() {
    this.all = new Map(); // name -> Map(line key -> {run, labels})
  }

  // True when it was not known.
  know(run, name, labels) {
    const key = lineKey(run, labels);
    if (!this.all.has(name)) this.all.set(name, new Map());
    const known = this.all.get(name);
    if (known.has(key)) return false;
    known.set(key, { run, labels: labels ?? {} });
    return true;
  }

  // Forgets what only this run had.
  drop(run) {
    for (const [name, known] of this.all) {
      for (const [key, line] of known) if (line.run === run) known.delete(key);
      if (known.size === 0) this.all.delete(name);
    }
  }
}

// The series of up to 100 runs, from the server: [{run, name, labels, …}].
export async function seriesOf(runs, signal) {
  return (await getJson(`/api/v1/series?${new URLSearchParams(runs.map((run) => ["run", run]))}`, signal)).items;
}

export function keyOf(labels) {
  return JSON.stringify(Object.entries(labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
}

export function lineKey(run, labels) {
  return `${run} ${keyOf(labels)}`;
}

// A machine's health has no steps: whatever the page says, it is drawn over time.
export function axisOf(name, axis) {
  return axis === "step" && name.startsWith("system/") ? "relative" : axis;
}

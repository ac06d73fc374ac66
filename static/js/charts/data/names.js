// Which series the runs have: as the server lists them, and as messages bring new ones.
import { getJson } from "./columns.js";

const NOTIFY_MS = 16; // names of many runs come together

export class Names {
  /** onChange(): there are other series than before @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {Map<string, Map<string, {run: string, labels: Labels}>>} */
    this.all = new Map(); // name -> Map(line key -> {run, labels})
    this.timer = 0;
  }

  /** labels: null where its lines are not known yet
   * @param {string} run @param {string} name @param {Labels | null | undefined} labels */
  add(run, name, labels) {
    const known = this.all.get(name) ?? new Map();
    const isNew = !this.all.has(name);
    this.all.set(name, known);
    const key = lineKey(run, labels ?? {});
    if (labels === null ? !isNew : known.has(key)) return;
    if (labels !== null) known.set(key, { run, labels: labels ?? {} });
    this.notify();
  }

  /** How many lines the run has of this name. @param {string} run @param {string} name */
  count(run, name) {
    let num = 0;
    for (const line of this.all.get(name)?.values() ?? []) num += Number(line.run === run);
    return num;
  }

  /** Forgets what only this run had. @param {string} run */
  drop(run) {
    for (const [name, known] of this.all) {
      for (const [key, line] of known) if (line.run === run) known.delete(key);
      if (known.size === 0) this.all.delete(name);
    }
    this.notify();
  }

  notify() {
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.onChange();
    }, NOTIFY_MS);
  }

  close() {
    clearTimeout(this.timer);
  }
}

// The series of up to 100 runs, from the server: [{run, name, labels}]; those: which of them.
/** @param {string[]} runs @param {[string, string][]} those @param {AbortSignal} [signal] */
export async function seriesOf(runs, those, signal) {
  const query = new URLSearchParams([...runs.map((run) => ["run", run]), ["names_only", "true"], ...those]);
  return (await getJson(`/api/v1/series?${query}`, signal)).items;
}

/** @param {Labels | undefined} labels */
export function keyOf(labels) {
  const entries = Object.entries(labels ?? {});
  return entries.length ? JSON.stringify(entries.sort(([a], [b]) => (a < b ? -1 : 1))) : "[]";
}

/** @param {string} run @param {Labels | undefined} labels */
export const lineKey = (run, labels) => `${run} ${keyOf(labels)}`;

// A machine's health has no steps: whatever the page says, it is drawn over time.
/** @param {string} name @param {Axis} axis @returns {Axis} */
export const axisOf = (name, axis) => (axis === "step" && name.startsWith("system/") ? "relative" : axis);

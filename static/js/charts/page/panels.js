// What the charts of a page show: a series each, or a panel that a person made: lines of several series or expressions,
// over steps or over the values of another series.
import { formatOf } from "../../shared/format.js";
import { axisOf, lineKey } from "../data/names.js";
import { against, linesIn, namesIn, parsed } from "../lines/expressions.js";

export const PANEL = "panel:"; // begins the key of a panel; that of a series is its name

export class Panels {
  // page: the Charts of charts.js; axes: over which other series one is drawn, as the scripts say
  constructor(page, axes) {
    this.page = page;
    this.stated = new Map(Object.entries(axes).map(([name, x]) => [name, statedPanel(name, x)]));
    this.read = new WeakMap(); // kept panel -> what was read of it
    this.wanted = new Set(); // keys
  }

  // {title, lines, x, terms, names, problem} of a panel, and of a series over another one; null for a series.
  of(key) {
    const kept = this.kept(key);
    if (kept && !this.read.has(kept)) this.read.set(kept, readPanel(kept));
    const stated = this.stated.get(key);
    return kept ? this.read.get(kept) : stated && this.page.store.names.has(stated.x) ? stated : null;
  }

  // The panel that a person made; undefined for a series.
  kept(key) {
    return this.page.workspace.layout.panels[key];
  }

  namesOf(key) {
    return this.of(key)?.names ?? [key];
  }

  // isShort: of a series without the section's name; where training and validation share a section, with it.
  titleOf(key, isShort = false) {
    const panel = this.kept(key);
    if (panel) return panel.title || panel.lines.join(", ");
    return isShort && !/^(train|val)\//.test(key) ? key.slice(key.indexOf("/") + 1) : key;
  }

  // The keys of the charts that show this series.
  usersOf(name) {
    const keys = [...Object.keys(this.page.workspace.layout.panels), ...this.stated.keys()];
    return [...new Set([name, ...keys.filter((key) => this.namesOf(key).includes(name))])];
  }

  // Of values where the panel has its own x.
  axisOf(key, axis) {
    const panel = this.of(key);
    if (!panel) return axisOf(key, axis);
    if (panel.x) return `value ${panel.x}`;
    return panel.names.some((name) => axisOf(name, axis) !== axis) ? "relative" : axis;
  }

  formatOf(key) {
    const formats = new Set(this.of(key)?.lines.map(formatOf) ?? [formatOf(key)]);
    return formats.size === 1 ? [...formats][0] : formatOf("");
  }

  // Why it can have no line; "" where it can.
  problemOf(key) {
    const panel = this.of(key);
    if (!panel || panel.problem) return panel?.problem ?? "";
    const { names } = this.page.store;
    const missing = panel.names.find((name) => !names.has(name));
    return missing === undefined ? "" : `no series is called ${missing}`;
  }

  want(key) {
    this.wanted.add(key);
    for (const name of this.namesOf(key)) this.page.store.want(name);
  }

  forget(key) {
    this.wanted.delete(key);
    const used = new Set([...this.wanted].flatMap((one) => this.namesOf(one)));
    for (const name of this.namesOf(key)) if (!used.has(name)) this.page.store.forget(name);
  }

  // What is held of a chart, as the lines of entries.js; undefined until all of it is there.
  entry(key) {
    const { windows, runs } = this.page;
    const panel = this.of(key);
    if (!panel) return windows.entry(key);
    const entries = new Map(panel.names.map((name) => [name, windows.entry(name)]));
    if ([...entries.values()].includes(undefined)) return undefined;
    const lines = new Map();
    for (const { id } of runs.list) {
      const linesOf = (name) => [...entries.get(name).lines.values()].filter(({ run }) => run === id);
      panel.terms.forEach((term, at) => {
        const found = term.kind === "series" ? linesOf(term.name) : linesIn(term, linesOf);
        for (const { labels: own, parts, tails } of found) {
          const labels = panel.terms.length > 1 ? { "": panel.lines[at], ...own } : own;
          const line = panel.x
            ? { parts: against({ labels: own, parts }, linesOf(panel.x)), tails: new Map() }
            : { parts, tails };
          lines.set(lineKey(id, labels), { run: id, labels, ...line });
        }
      });
    }
    return { lines };
  }
}

function statedPanel(name, x) {
  return { title: "", lines: [name], x, terms: [{ kind: "series", name }], names: [name, x], problem: "" };
}

function readPanel(kept) {
  try {
    const terms = kept.lines.map(parsed);
    const names = [...new Set([...terms.flatMap(namesIn), ...(kept.x ? [kept.x] : [])])];
    return { ...kept, terms, names, problem: "" };
  } catch (error) {
    return { ...kept, terms: [], names: [], problem: /** @type {Error} */ (error).message };
  }
}

// The runs of the page, and what a line of theirs is called, its colour, its group, and why an attempt began.
import { groupColours, groupText } from "../../shared/grouping.js";
import { getJson } from "./columns.js";
import { keyOf } from "./names.js";

const EVERY_MS = 2000;
const EACH = "*"; // grouped by nothing, however many there are
const { compare } = new Intl.Collator("en", { numeric: true });

export class Runs {
  // list: [{id, name, start, status, colour, isLive, fields, attempts: [{fence, number, cause}]}]; usualGroup: by what
  // they are grouped while nobody chose; null: by nothing, "": all are one
  /** @param {any[]} list @param {string | null} [usualGroup] */
  constructor(list, usualGroup = null) {
    this.usual = usualGroup === null ? null : { by: usualGroup, band: "minmax" };
    this.set(list);
    this.asked = new Set();
  }

  set(list) {
    this.list = list;
    this.byId = new Map(list.map((run) => [run.id, run]));
    this.starts = new Map(list.map(({ id, start }) => [id, start]));
    const times = new Map();
    for (const { name } of list) times.set(name, (times.get(name) ?? 0) + 1);
    this.titles = new Map(list.map(({ id, name }) => [id, times.get(name) > 1 ? `${name} (${id})` : name]));
  }

  get isMany() {
    return this.list.length > 1;
  }

  // Of one run alone nothing is hidden: its page would be empty.
  hiddenOf(state) {
    return this.isMany ? new Set(state.hidden) : null;
  }

  groupsOf(state) {
    const group = this.groupOf(state);
    if (!group || !this.isMany) return null;
    return { of: new Map(this.list.map(({ id, fields }) => [id, groupText(fields, group.by)])), band: group.band };
  }

  groupOf({ group }) {
    const chosen = group ?? this.usual;
    return chosen?.by === EACH ? null : chosen;
  }

  // Of the groups by these fields: asked for each line at each move of the crosshair.
  groupColours(by) {
    if (this.grouped?.list !== this.list || this.grouped.by !== by)
      this.grouped = { list: this.list, by, colours: groupColours(this.list, by) };
    return this.grouped.colours;
  }

  // Of one run, a colour per label set; of several, a colour per run or group.
  colourOf(line, state, labelled) {
    if (!line) return 0;
    if (line.group !== null && line.group !== undefined)
      return this.groupColours(this.groupOf(state)?.by ?? "").get(line.group) ?? 0;
    if (this.isMany) return state.colours[line.run] ?? this.byId.get(line.run)?.colour ?? 0;
    return labelled.get(keyOf(line.labels)) ?? 0;
  }

  labelOf(line, key) {
    if (!line) return "";
    if (line.group !== null && line.group !== undefined) return line.group;
    const isBand = key.startsWith("band ");
    const words = labelWords(line.labels) || (isBand ? "all ranks" : "");
    if (!this.isMany) return words || "all";
    return [this.titles.get(line.run) ?? line.run, words].filter(Boolean).join(" · ");
  }

  // Where values of the metrics broke a rule, and what happened to the runs, along the axis. stepAt(run, time) -> the
  // step that a run had reached, null where it had none.
  marksOf(names, axis, stepAt) {
    const along = {
      step: ({ step, time }, { id }) => step ?? stepAt(id, time),
      time: ({ time }) => time,
      relative: ({ time }, { start }) => time - start,
    };
    if (!along[axis]) return [];
    return this.list.flatMap((run) => {
      const alarms = (run.alarms ?? []).filter(({ metric }) => names.includes(metric));
      return [...alarms.map((one) => ({ ...one, kind: "alarm" })), ...(run.marks ?? [])]
        .map((one) => ({ attempt: 0, ...one, run: run.id, x: along[axis](one, run) }))
        .filter(({ x }) => x !== null);
    });
  }

  // What the server knows of the run by now, beside its points.
  async ask(run, onKnown, isAtOnce = false) {
    if (!run || (!isAtOnce && Date.now() < (run.askedAt ?? 0) + EVERY_MS)) return;
    run.askedAt = Date.now();
    const found = await getJson(`/runs/${run.id}/?fragment=marks`).catch(() => null);
    const textOf = ({ alarms, attempts, marks }) => JSON.stringify([alarms, attempts, marks]);
    if (!found || textOf(found) === textOf(run)) return;
    Object.assign(run, found);
    onKnown();
  }

  // Why an attempt began; one that began behind the page's back is asked for once.
  causeOf(id, fence, onKnown) {
    const run = this.byId.get(id);
    const known = run?.attempts.find((one) => one.fence === fence);
    if (known) return known.cause ? { sentence: known.cause } : null;
    const question = `${id} ${fence}`;
    if (run && !this.asked.has(question)) {
      this.asked.add(question);
      this.ask(run, onKnown, true);
    }
    return { sentence: "A new attempt began." };
  }
}

// A colour per label set, counted among those of the same kind: rank 0 is the first colour in every chart and in the
// logs.
export function labelColours(names) {
  const kinds = new Map();
  for (const known of names.values()) {
    for (const { labels } of known.values()) {
      const kind = Object.keys(labels ?? {})
        .sort()
        .join();
      if (!kinds.has(kind)) kinds.set(kind, new Set());
      kinds.get(kind).add(keyOf(labels));
    }
  }
  return new Map([...kinds.values()].flatMap((keys) => [...keys].sort(compare).map((key, at) => [key, at])));
}

function labelWords(labels) {
  return Object.entries(labels ?? {})
    .map(([name, value]) => (name === "node" || name === "" ? value : `${name} ${value}`))
    .join(" ");
}

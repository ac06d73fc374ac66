// The runs of the page, and what a line of theirs is called, its colour, its group, and why an attempt began.
import { groupColours, groupText } from "../../shared/grouping.js";
import { getJson } from "./columns.js";
import { keyOf } from "./names.js";

const ALARMS_EVERY_MS = 2000;
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

  // Where values of the metric broke a rule, along the axis.
  alarmsOf(name, axis) {
    const along = { step: ({ step }) => step, time: ({ time }) => time, relative: ({ time }, start) => time - start };
    if (!along[axis]) return [];
    return this.list.flatMap(({ id, start, alarms = [] }) =>
      alarms
        .filter(({ metric }) => metric === name)
        .map((one) => ({ run: id, attempt: one.attempt, x: along[axis](one, start), sentence: one.sentence })),
    );
  }

  // The run has changed: there may be more.
  async askAlarms(onKnown) {
    const [run] = this.list;
    if (!run || Date.now() < (this.alarmsAt ?? 0) + ALARMS_EVERY_MS) return;
    this.alarmsAt = Date.now();
    const answer = await getJson(`/api/v1/runs/${run.id}/alarms`).catch(() => null);
    if (!answer || answer.items.length === (run.alarms?.length ?? 0)) return;
    run.alarms = answer.items.map(({ first_step: step, at: time, ...one }) => ({ ...one, step, time }));
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
      askAttempts(run).then((isNew) => isNew && onKnown());
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

async function askAttempts(run) {
  const answer = await getJson(`/api/v1/runs/${run.id}/attempts?limit=100`).catch(() => null);
  if (!answer) return false;
  answer.items.forEach(({ fence, number }, at) => {
    if (run.attempts.some((one) => one.fence === fence)) return;
    const before = answer.items[at - 1];
    const why = before?.reason?.sentence ? ` Attempt ${before.number} ended: ${before.reason.sentence}` : "";
    run.attempts.push({ fence, number, cause: before ? `Attempt ${number} began.${why}` : "" });
  });
  return true;
}

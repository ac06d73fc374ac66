// The points of a run as the page knows them: loaded when a chart asks, then grown by what the socket brings.
import { continues, on } from "./live.js";

const POINTS = 1500;
const TOO_MANY = 3 * POINTS; // a line that grew past this is asked for again, in buckets

export class SeriesStore {
  constructor(api, { onNames, onData }) {
    this.api = api;
    this.onNames = onNames; // called when a series appears that was not there
    this.onData = onData; // called with a name whose points changed
    this.names = new Map(); // name -> Map(labels key -> labels)
    this.loaded = new Map(); // name -> {cursor, lines: Map(labels key -> {labels, parts: Map(attempt -> columns)})}
    this.asked = new Map(); // name -> messages that came while its data was on the way
    this.wanted = new Set();
    this.timer = 0;
    this.stops = [
      on("points", (message) => this.receive(message)),
      on("refetch", () => this.reload()),
      on("again", () => this.list()),
    ];
  }

  close() {
    clearTimeout(this.timer);
    this.stops.forEach((stop) => stop());
  }

  async list() {
    const items = [];
    let next = "";
    do {
      const page = await getJson(`${this.api}/series?limit=1000${next ? `&cursor=${encodeURIComponent(next)}` : ""}`);
      items.push(...page.items);
      next = page.next;
    } while (next);
    let isNew = false;
    for (const { name, labels } of items) isNew = this.know(name, labels) || isNew;
    if (isNew) this.onNames();
  }

  know(name, labels) {
    const key = keyOf(labels);
    if (!this.names.has(name)) this.names.set(name, new Map());
    const known = this.names.get(name);
    if (known.has(key)) return false;
    known.set(key, labels ?? {});
    return true;
  }

  // Ask for a name's points; the charts that come into view together share one request.
  want(name) {
    if (this.loaded.has(name) || this.asked.has(name)) return;
    this.wanted.add(name);
    this.timer ||= setTimeout(() => this.fetchWanted(), 20);
  }

  reload() {
    for (const name of this.loaded.keys()) this.wanted.add(name);
    this.timer ||= setTimeout(() => this.fetchWanted(), 200);
  }

  async fetchWanted() {
    this.timer = 0;
    const names = [...this.wanted];
    this.wanted.clear();
    if (!names.length) return;
    for (const name of names) this.asked.set(name, []);
    const query = names.map((name) => `name=${encodeURIComponent(name)}`).join("&");
    try {
      const data = await getJson(`${this.api}/series/data?${query}&points=${POINTS}`);
      this.take(names, data);
      if (!continues(data.cursor)) names.forEach((name) => this.again(name));
    } catch (error) {
      for (const name of names) this.asked.delete(name);
      console.warn("series data did not come", error);
      setTimeout(() => names.forEach((name) => this.want(name)), 3000);
    }
  }

  take(names, data) {
    for (const name of names) this.loaded.set(name, { cursor: data.cursor, lines: new Map() });
    for (const part of data.series) {
      this.know(part.name, part.labels);
      this.line(part.name, part.labels).parts.set(part.attempt, columns(part));
    }
    for (const name of names) {
      const late = this.asked.get(name) ?? [];
      this.asked.delete(name);
      for (const message of late) this.append(message, name);
      this.onData(name);
    }
  }

  line(name, labels) {
    const { lines } = this.loaded.get(name);
    const key = keyOf(labels);
    if (!lines.has(key)) lines.set(key, { labels: labels ?? {}, parts: new Map() });
    return lines.get(key);
  }

  receive(message) {
    let isNew = false;
    const touched = new Set();
    for (const part of message.series) {
      isNew = this.know(part.name, part.labels) || isNew;
      touched.add(part.name);
    }
    for (const name of touched) {
      if (this.asked.has(name)) this.asked.get(name).push(message);
      else if (this.loaded.has(name) && this.append(message, name)) this.onData(name);
    }
    if (isNew) this.onNames();
  }

  // Adds what the message has of this name; false when it was there already or is being asked for again.
  append(message, name) {
    const entry = this.loaded.get(name);
    if (message.cursor <= entry.cursor) return false;
    if (message.from < entry.cursor) return this.again(name);
    for (const part of message.series) {
      if (part.name !== name) continue;
      const { parts } = this.line(name, part.labels);
      const fresh = columns(part);
      const old = parts.get(part.attempt);
      if (!old) parts.set(part.attempt, fresh);
      else extend(old, fresh);
      if ((old ?? fresh).step.length > TOO_MANY) this.again(name);
    }
    return true;
  }

  again(name) {
    this.wanted.add(name);
    this.timer ||= setTimeout(() => this.fetchWanted(), 200);
    return false;
  }
}

export function keyOf(labels) {
  return JSON.stringify(Object.entries(labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
}

// "NaN" and "Infinity" travel as strings; Number() makes them what they were.
export function columns(part) {
  const isBuckets = part.kind === "buckets";
  const value = (isBuckets ? part.mean : part.value).map(read);
  const made = { step: [...part.step], time: [...part.time], value, min: null, max: null };
  if (isBuckets) Object.assign(made, { min: part.min.map(read), max: part.max.map(read), last: part.last.map(read) });
  return made;
}

function read(value) {
  return value === null ? NaN : Number(value);
}

function extend(old, fresh) {
  old.step.push(...fresh.step);
  old.time.push(...fresh.time);
  old.value.push(...fresh.value);
  if (old.min) {
    old.min.push(...fresh.value);
    old.max.push(...fresh.value);
    old.last.push(...fresh.value);
  }
}

export async function getJson(url) {
  const answer = await fetch(url, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer.json();
}

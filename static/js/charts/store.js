// The points of a run as the page knows them: loaded when a chart asks, then grown by what the socket brings.
import { fetchColumns } from "./columns.js";
import { continues, on } from "../live.js";
import { Names, keyOf, namesIn } from "./names.js";
import { joined, partOf } from "./parts.js";

const POINTS = 1500;
const TOO_MANY = 3 * POINTS; // a line that grew past this is asked for again, in buckets

export class SeriesStore {
  constructor(api, { onNames, onData }) {
    this.api = api;
    this.onNames = onNames; // called when a series appears that was not there
    this.onData = onData; // called with a name whose points changed
    this.known = new Names(api);
    // name -> {cursor, lines: Map(labels key -> {labels, parts, tails: Map(attempt -> part)})}; a tail was trained again
    this.loaded = new Map();
    this.asked = new Map(); // name -> messages that came while its data was on the way
    this.wanted = new Set();
    this.timer = 0;
    this.listing = 0;
    this.stops = [
      on("points", (message) => this.receive(message)),
      on("refetch", () => this.reload()),
      on("again", () => this.list()),
    ];
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.listing);
    this.stops.forEach((stop) => stop());
  }

  get names() {
    return this.known.all;
  }

  async list() {
    if (await this.known.list()) this.onNames();
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
    // In what was not told there may be series that nobody here has heard of.
    this.listing ||= setTimeout(() => {
      this.listing = 0;
      this.list().catch((error) => console.warn("the list of series did not come", error));
    }, 1000);
  }

  async fetchWanted() {
    this.timer = 0;
    const names = [...this.wanted];
    this.wanted.clear();
    if (!names.length) return;
    for (const name of names) this.asked.set(name, []);
    try {
      const data = await fetchColumns(`${this.api}/series/data?${namesIn(names)}&points=${POINTS}&attempts=all`);
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
    for (const series of data.series) {
      this.known.know(series.name, series.labels);
      const line = this.line(series.name, series.labels);
      (series.superseded ? line.tails : line.parts).set(series.attempt, partOf(series));
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
    if (!lines.has(key)) lines.set(key, { labels: labels ?? {}, parts: new Map(), tails: new Map() });
    return lines.get(key);
  }

  receive(message) {
    let isNew = false;
    const touched = new Set();
    for (const part of message.series) {
      isNew = this.known.know(part.name, part.labels) || isNew;
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
    for (const series of message.series) {
      if (series.name !== name) continue;
      const { parts } = this.line(name, series.labels);
      const grown = joined(parts.get(series.attempt), partOf(series));
      parts.set(series.attempt, grown);
      if (grown.step.length > TOO_MANY) this.again(name);
    }
    return true;
  }

  again(name) {
    this.wanted.add(name);
    this.timer ||= setTimeout(() => this.fetchWanted(), 200);
    return false;
  }
}

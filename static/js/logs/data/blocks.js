// The log as the filters leave it, by place: blocks of lines are fetched around what is in view and the least used
// dropped.
const SIZE = 200;
const KEPT = 40;
const IN_FLIGHT = 2;
const RETRY_MS = [1000, 2000, 4000, 8000, 15_000];

export class Blocks {
  // onData(from, to): lines came. Until the first answer `total` is 0 and `isKnown` false.
  constructor(api, onData) {
    this.api = api;
    this.onData = onData;
    this.isFollowing = false;
    this.flights = new Map(); // block -> {flight: AbortController, isAhead}
    this.clear();
  }
  clear() {
    for (const { flight } of this.flights.values()) flight.abort();
    clearTimeout(this.timer);
    this.flights.clear();
    this.blocks = new Map(); // block -> {lines: [line | undefined], isStale}; the least used first
    this.places = new Map(); // id -> index
    this.wanted = [];
    this.total = 0;
    this.isKnown = false;
    this.numFailed = 0;
    this.lastFrom = 0;
    this.timer = 0;
    this.view = [0, 0];
    this.numInView = 0;
  }
  get(index) {
    return this.blocks.get(Math.floor(index / SIZE))?.lines[index % SIZE];
  }
  indexOf(id) {
    const index = this.places.get(id);
    return this.get(index)?.id === id ? index : -1;
  }
  // What is in view; what comes next in the direction of the move is fetched too.
  want(from, to) {
    if (!this.isKnown) return;
    const isUp = from < this.lastFrom;
    this.lastFrom = from;
    const ahead = isUp ? [from - SIZE, from - 2 * SIZE] : [to + SIZE - 1, to + 2 * SIZE - 1];
    const inView = [from, to - 1];
    this.view = [from, to];
    const there = [...inView, ...ahead].filter((index) => index >= 0 && index < this.total);
    this.wanted = [...new Set(there.map((index) => Math.floor(index / SIZE)))];
    for (const block of this.wanted) this.touch(block);
    this.numInView = new Set(inView.map((index) => Math.floor(index / SIZE))).size;
    this.start();
  }
  start() {
    if (this.timer) return;
    if (this.isFollowing && this.has(...this.view)) return; // the tail brings what is new
    const missing = this.wanted.filter((block) => !this.flights.has(block) && !this.isWhole(block));
    if (!missing.length) return;
    const inView = this.wanted.slice(0, this.numInView);
    const urgent = missing.filter((block) => inView.includes(block));
    // What was only fetched ahead gives way. What was in view is let come, though one has moved on: while the scroll
    // bar is dragged, it is all there is to show.
    for (const [block, { isAhead, flight }] of this.flights) {
      if (!urgent.length || this.flights.size < IN_FLIGHT || !isAhead || inView.includes(block)) continue;
      flight.abort();
      this.flights.delete(block);
    }
    if (!urgent.length && [...this.flights.keys()].some((block) => inView.includes(block))) return;
    for (const block of (urgent.length ? urgent : missing).slice(0, IN_FLIGHT - this.flights.size))
      this.fetch(block, !urgent.length);
  }
  async fetch(block, isAhead) {
    const flight = new AbortController();
    const entry = { flight, isAhead };
    this.flights.set(block, entry);
    const page = await this.api.get("/window", { start: block * SIZE, limit: SIZE }, flight);
    if (this.flights.get(block) !== entry) return; // given up, or the filters are others by now
    this.flights.delete(block);
    if (page) {
      this.numFailed = 0;
      this.take(page);
      this.start();
    } else if (this.api.trouble === "away") {
      this.timer = setTimeout(() => this.again(), RETRY_MS[Math.min(this.numFailed++, RETRY_MS.length - 1)]);
    }
  }
  again() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.start();
  }
  // An answer of /logs/window. Where the log has grown, lines may stand at other places than they did: old blocks are
  // shown until they were asked for again.
  take({ total, start, items }) {
    if (this.isKnown && total !== this.total) for (const block of this.blocks.values()) block.isStale = true;
    this.isKnown = true;
    this.total = total;
    items.forEach((line, at) => this.put(start + at, line));
    for (let at = start; at < start + items.length; at += SIZE - (at % SIZE)) {
      const block = Math.floor(at / SIZE);
      if (at % SIZE === 0 && start + items.length >= Math.min(total, at + SIZE)) this.blocks.get(block).isStale = false;
    }
    while (this.blocks.size > KEPT) this.drop(this.blocks.keys().next().value);
    this.onData(start, start + items.length);
  }
  put(index, line) {
    const block = Math.floor(index / SIZE);
    if (!this.blocks.has(block)) this.blocks.set(block, { lines: [], isStale: true });
    const { lines } = this.blocks.get(block);
    const known = lines[index % SIZE];
    if (known?.id === line.id && known.text === line.text) return; // it is drawn already
    if (known) this.forget(known, block);
    lines[index % SIZE] = line;
    this.places.set(line.id, index);
  }
  has(from, to) {
    for (let index = from; index < to; index += 1) if (!this.get(index)) return false;
    return true;
  }
  isWhole(block) {
    return this.blocks.get(block)?.isStale === false;
  }
  touch(block) {
    const known = this.blocks.get(block);
    if (!known) return;
    this.blocks.delete(block);
    this.blocks.set(block, known);
  }
  drop(block) {
    for (const line of this.blocks.get(block).lines) if (line) this.forget(line, block);
    this.blocks.delete(block);
  }
  // Unless it was found in another block since.
  forget({ id }, block) {
    if (Math.floor(this.places.get(id) / SIZE) === block) this.places.delete(id);
  }
}

// The lines that a search found, in the order of the log. The server looks for as long as it is given and says where it
// stopped; so the list grows until all is seen, or until there are more hits than anybody reads.
const PAGE = 100;
const MOST = 1000; // as many again each time one comes near the end of them
const FIRST_MS = 150;
const LATER_MS = 400;
const RETRY_MS = 3000;

export class Hits {
  // onData(): hits came, or the search has gone on
  constructor(api, onData) {
    this.api = api;
    this.onData = onData;
    this.number = 0;
    this.clear();
  }
  clear() {
    this.flight?.abort();
    clearTimeout(this.timer);
    this.number += 1;
    this.items = [];
    this.spans = new Map();
    this.next = "";
    this.numScanned = 0;
    this.numLines = 0;
    this.isOver = false;
    this.isBusy = false;
    this.problem = "";
    this.limit = MOST;
  }
  get total() {
    return this.items.length;
  }
  get(index) {
    return this.items[index];
  }
  want(_from, to) {
    if (to < this.limit - 3 * PAGE || this.isOver) return;
    this.limit += MOST;
    this.go();
  }
  indexOf(id) {
    return this.items.findIndex((line) => line.id === id);
  }
  // query: {q, regex, case}
  search(query) {
    this.clear();
    this.query = query;
    return this.go();
  }
  // Reads on from where it stopped: lines came, or more hits are wanted.
  async go() {
    if (this.isBusy || this.problem) return;
    this.isBusy = true;
    const mine = this.number;
    let budget = this.next ? LATER_MS : FIRST_MS;
    while (this.items.length < this.limit) {
      this.flight = new AbortController();
      this.api.reason = "";
      const asked = { ...this.query, after: this.next, limit: PAGE, budget_ms: budget };
      const page = await this.api.get("/search", asked, this.flight);
      if (mine !== this.number) return;
      if (!page) return this.stop();
      this.take(page);
      if (page.is_over) break;
      budget = LATER_MS;
    }
    this.isBusy = false;
    this.onData();
  }
  take(page) {
    const last = this.items.at(-1)?.index ?? -1;
    for (const line of page.items) {
      if (this.spans.has(line.id)) continue;
      this.items.push(line);
      this.spans.set(line.id, line.spans);
    }
    // Lines that came late may stand before those that were found already.
    if (page.items[0]?.index < last) this.items.sort((one, other) => one.index - other.index);
    this.next = page.next ?? this.next;
    this.numScanned = page.num_scanned;
    this.numLines = page.total;
    this.isOver = page.is_over;
    this.onData();
  }
  stop() {
    this.isBusy = false;
    if (this.api.trouble === "away") this.timer = setTimeout(() => this.go(), RETRY_MS);
    else this.problem = this.api.reason;
    this.onData();
  }
}

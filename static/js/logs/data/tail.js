// Live: a push is a hint that the log has grown. One fetch at a time, of what is in view only: however many lines a
// program prints, the page draws no more of them than it can show.
const FOLLOWING_MS = 200; // between two fetches at the end of the log
const READING_MS = 1000; // and while one reads further up
const RETRY_MS = [1000, 2000, 4000, 8000, 15_000];

export class Tail {
  // options: {api, range() -> {start, limit} to ask for, isFollowing(), onPage(page): takes the answer}
  constructor(options) {
    this.options = options;
    this.timer = 0;
    this.number = 0;
    this.numFailed = 0;
    this.handle = () => this.isStale && this.hint();
    document.addEventListener("visibilitychange", this.handle);
  }
  hint() {
    this.isStale = true;
    if (this.timer || this.isBusy || document.hidden || this.options.api.trouble === "gone") return;
    const pause = this.options.isFollowing() ? FOLLOWING_MS : READING_MS;
    this.timer = setTimeout(() => this.fetch(), Math.max(0, (this.lastAt ?? 0) + pause - performance.now()));
  }
  // At once: the filters are others, or one wants to be at the end. Resolves to whether an answer was taken.
  async fetch(range = this.options.range()) {
    const { api, onPage } = this.options;
    clearTimeout(this.timer);
    this.timer = 0;
    this.isBusy = true;
    this.isStale = false;
    const mine = (this.number += 1);
    const page = await api.get("/window", range);
    if (mine !== this.number) return false;
    this.isBusy = false;
    this.lastAt = performance.now();
    if (page) onPage(page);
    this.numFailed = page ? 0 : this.numFailed + 1;
    if (this.isStale && page) this.hint();
    if (!page && api.trouble === "away") this.again(range);
    return Boolean(page);
  }
  again(range) {
    const pause = RETRY_MS[Math.min(this.numFailed - 1, RETRY_MS.length - 1)];
    this.timer = setTimeout(() => this.fetch(range), pause);
  }
  close() {
    this.number += 1;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.handle);
  }
}

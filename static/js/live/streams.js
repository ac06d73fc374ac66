// A stream per run for a page that shows several: the page's own where it is that run's, one each for live runs as
// long as there are few, a question every few seconds for further ones, and silence for runs that ended.
import { own } from "./live.js";
import { Stream } from "./stream.js";

/** @typedef {{take: () => boolean, give: () => void}} Slots */
const MOST_SOCKETS = 12;
const ASK_MS = 15_000;

// Returns streamOf(runId) -> {on(type, listener) -> stop, continues(cursor)}. A socket is open while somebody listens.
/** @param {(run: string) => boolean} isLive @param {{most?: number, askMs?: number}} [limits] */
export function streamsFor(isLive, { most = MOST_SOCKETS, askMs = ASK_MS } = {}) {
  /** @type {Map<string, Shared>} */
  const known = new Map(); // run -> its stream
  let numOpen = 0;
  const slots = { take: () => numOpen < most && ++numOpen > 0, give: () => void (numOpen -= 1) };
  return /** @param {string} run */ (run) => {
    if (own.path === pathOf(run)) return own;
    if (!known.has(run)) known.set(run, new Shared(run, () => isLive(run), slots, askMs));
    return known.get(run);
  };
}

/** @param {string} run */
const pathOf = (run) => `/ws/runs/${run}/`;

// Opens with the first listener and closes with the last.
class Shared {
  /** @param {string} run @param {() => boolean} isLive @param {Slots} slots @param {number} askMs */
  constructor(run, isLive, slots, askMs) {
    this.stream = new Stream(pathOf(run));
    this.isLive = isLive;
    this.slots = slots;
    this.askMs = askMs;
    this.num = 0;
    this.hasSocket = false;
    this.asking = 0;
  }

  /** @param {string} type @param {import("./stream.js").Listener} listener */
  on(type, listener) {
    const stop = this.stream.on(type, listener);
    if (this.num === 0) this.begin();
    this.num += 1;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      stop();
      this.num -= 1;
      if (this.num === 0) this.end();
    };
  }

  // Without a socket there is nothing that a cursor could miss: the next question reads everything.
  /** @param {number} cursor */
  continues(cursor) {
    return this.hasSocket ? this.stream.continues(cursor) : true;
  }

  begin() {
    let wasLive = this.isLive();
    this.hasSocket = wasLive && this.slots.take();
    if (this.hasSocket) return this.stream.open();
    this.asking = setInterval(() => {
      if (document.hidden) return;
      const isLive = this.isLive(); // a run that ended may be started again
      if (isLive || wasLive) this.stream.emit({ type: "refetch" });
      wasLive = isLive;
    }, this.askMs);
  }

  end() {
    clearInterval(this.asking);
    if (!this.hasSocket) return;
    this.hasSocket = false;
    this.stream.close();
    this.stream = new Stream(this.stream.path); // the next reader loads everything, with its own cursor
    this.slots.give();
  }
}

// A WebSocket that heals. Messages are hints with a cursor: a hole, or a silence, means "connect again from my cursor".
import { judge } from "./judge.js";
import { ended, follow, isOver } from "./session.js";

const HIDDEN_MS = 30_000;
const SILENCE_MS = 16_000; // the server pings every 5 s
/** @type {Record<number, string>} */
const REFUSALS = { 4403: "forbidden", 4404: "gone" }; // coming again would help nothing
const SIGNED_OUT = 4401;

/** @typedef {{type: string, cursor?: number, from?: number, [key: string]: any}} Message */
/** @typedef {(message: any) => void} Listener */
/** @typedef {(state: string, seconds?: number) => void} OnState */
export class Stream {
  /** @param {string} path @param {OnState} [onState] */
  constructor(path, onState = () => {}) {
    this.path = path;
    this.onState = onState; // called with the state and, while it waits to connect again, the seconds that are left
    this.state = "closed"; // connecting, live, reconnecting, paused, off, signed-out
    /** @type {Map<string, Set<Listener>>} */
    this.listeners = new Map(); // type -> Set of functions
    /** @type {number | null} */
    this.last = null; // the cursor up to which everything was delivered
    /** @type {number | null} */
    this.origin = null; // the cursor from which on nothing was left out
    /** @type {WebSocket | null} */
    this.socket = null;
    this.tries = 0;
    this.hasLived = false;
    /** @type {(() => void)[]} */
    this.stops = []; // of what is listened to while it is open
    this.timer = 0;
    this.silence = 0;
  }

  /** @param {string} type @param {Listener} listener */
  on(type, listener) {
    const all = this.listeners.get(type) ?? new Set();
    this.listeners.set(type, all.add(listener));
    return () => void all.delete(listener);
  }

  /** @param {Message} message */
  emit(message) {
    for (const listener of this.listeners.get(message.type) ?? []) listener(message);
  }

  // Whether the messages continue a cursor of loaded data; false: load again, some were missed.
  /** @param {number} cursor */
  continues(cursor) {
    if (this.origin === null) this.last = this.origin = cursor;
    return cursor >= this.origin;
  }

  open() {
    if (this.stops.length) return;
    this.setState("connecting");
    this.reconnect();
    const stopWatching = watchPresence({
      onAway: () => this.leave("paused"),
      onBack: () => this.return(),
      onLeave: () => this.leave("closed"),
      onReturn: () => this.reconnect(),
    });
    this.stops = [stopWatching, follow({ onEnd: () => this.leave("signed-out"), onBack: () => this.return() })];
  }

  close() {
    for (const stop of this.stops.splice(0)) stop();
    this.leave("closed");
  }

  /** @param {string} state */
  leave(state) {
    this.drop();
    this.setState(state);
  }

  return() {
    if (this.socket || isOver()) return;
    this.setState("connecting");
    this.reconnect();
  }

  reconnect() {
    this.drop();
    const since = this.last === null ? "" : `?since=${this.last}`;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const mine = new WebSocket(`${scheme}://${location.host}${this.path}${since}`);
    this.socket = mine;
    mine.onopen = () => mine === this.socket && this.onOpen();
    mine.onmessage = (event) => mine === this.socket && this.onMessage(JSON.parse(event.data));
    mine.onclose = (event) => mine === this.socket && this.onClose(event.code);
  }

  onOpen() {
    this.tries = 0;
    this.setState("live");
    this.listen();
    if (this.hasLived) this.emit({ type: "again" });
    this.hasLived = true;
  }

  /** @param {Message} message */
  onMessage(message) {
    this.listen();
    const verdict = judge(message, this.last);
    if (verdict === "drop") return;
    if (verdict === "hole") return this.reconnect();
    if (message.cursor !== undefined) {
      this.origin ??= message.from ?? message.cursor;
      if (message.type === "refetch") this.origin = message.cursor;
      this.last = message.cursor;
    }
    this.emit(message);
  }

  /** @param {number} code */
  onClose(code) {
    if (code === SIGNED_OUT) {
      this.leave("signed-out");
      return ended();
    }
    if (!REFUSALS[code]) return this.retry();
    clearTimeout(this.silence);
    this.setState("off");
    this.emit({ type: REFUSALS[code] });
  }

  retry() {
    this.drop();
    this.tries += 1;
    const wait = Math.min(15_000, 400 * 2 ** Math.min(this.tries, 6)) * (0.5 + Math.random() / 2);
    const until = Date.now() + wait;
    const count = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      if (left <= 0) return this.reconnect();
      this.setState("reconnecting", left);
      this.timer = setTimeout(count, Math.min(1000, until - Date.now()));
    };
    count();
  }

  drop() {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    const old = this.socket;
    this.socket = null;
    if (old) old.close();
  }

  listen() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.retry(), SILENCE_MS);
  }

  /** @param {string} state @param {number} [seconds] */
  setState(state, seconds) {
    this.state = state;
    this.onState(state, seconds);
  }
}

// Whether somebody may be looking: a page in the background for a while is as good as away, one that is left is gone.
// Calls onAway and onBack, in turns as it happens; returns what ends that.
/** @param {Record<"onAway" | "onBack" | "onLeave" | "onReturn", () => void>} on */
function watchPresence({ onAway, onBack, onLeave, onReturn }) {
  const over = new AbortController();
  const { signal } = over;
  let hiding = 0;
  function onVisibility() {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(onAway, HIDDEN_MS);
    else onBack();
  }
  document.addEventListener("visibilitychange", onVisibility, { signal });
  window.addEventListener("pagehide", onLeave, { signal });
  window.addEventListener("pageshow", (event) => event.persisted && onReturn(), { signal });
  if (document.hidden) onVisibility(); // opened in the background
  return () => {
    clearTimeout(hiding);
    over.abort();
  };
}

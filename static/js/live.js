// One WebSocket for the page. Messages are hints with a cursor: a hole, or a silence, means "connect again from my cursor".
const HIDDEN_MS = 30_000; // a page in the background keeps its socket this long
const SILENCE_MS = 16_000; // the server pings every 5 s
const listeners = new Map(); // type -> Set of functions
let last = null; // the cursor up to which everything was delivered
let origin = null; // the cursor from which on nothing was left out

export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, new Set());
  listeners.get(type).add(listener);
  return () => listeners.get(type).delete(listener);
}

export function emit(message) {
  for (const listener of listeners.get(message.type) ?? []) listener(message);
}

// Whoever loaded data as of a cursor asks whether the messages continue it; false: load again, some lie in between.
export function continues(cursor) {
  if (origin === null) last = origin = cursor;
  return cursor >= origin;
}

// What to do with a message, given the last cursor: "deliver", "drop" (seen) or "hole" (something is missing before it).
export function judge(message, cursor) {
  if (message.cursor === undefined || cursor === null) return "deliver";
  if (message.type === "ping") return message.cursor > cursor ? "hole" : "deliver";
  if (message.type === "refetch") return "deliver"; // everything is loaded again, whatever was here: even from a store with less
  if (message.cursor < cursor) return "drop";
  // One of several of a batch, whose last one moves the cursor.
  if (message.from === message.cursor) return message.cursor > cursor ? "hole" : "deliver";
  if (message.cursor === cursor) return "drop";
  return message.from > cursor ? "hole" : "deliver";
}

export function mount(lamp) {
  const path = lamp.dataset.socket;
  if (!path) return;
  let socket = null;
  let tries = 0;
  let timer = 0;
  let silence = 0;
  let hiding = 0;
  let isFirst = true;
  let leaving = false;

  function show(state, words) {
    if (lamp.dataset.state !== state) lamp.dataset.state = state;
    if (lamp.textContent !== words) lamp.textContent = words;
  }
  function connect() {
    clearTimeout(timer);
    if (leaving) return;
    const since = last === null ? "" : `?since=${last}`;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const mine = new WebSocket(`${scheme}://${location.host}${path}${since}`);
    socket = mine;
    mine.onopen = () => {
      tries = 0;
      show("live", "live");
      listen();
      if (!isFirst) emit({ type: "again" });
      isFirst = false;
    };
    mine.onmessage = (event) => {
      if (mine !== socket) return;
      listen();
      receive(JSON.parse(event.data));
    };
    mine.onclose = (event) => {
      if (mine !== socket || leaving) return;
      if (event.code === 4401 || event.code === 4404 || event.code === 4403) return show("off", "not allowed");
      retry();
    };
  }
  function receive(message) {
    const verdict = judge(message, last);
    if (verdict === "drop") return;
    if (verdict === "hole") return reconnect();
    if (message.cursor !== undefined) {
      origin ??= message.from ?? message.cursor;
      if (message.type === "refetch") origin = message.cursor;
      last = message.cursor;
    }
    emit(message);
  }
  function reconnect() {
    drop();
    connect();
  }
  function retry() {
    drop();
    tries += 1;
    const wait = Math.min(15_000, 400 * 2 ** Math.min(tries, 6)) * (0.5 + Math.random() / 2);
    const until = Date.now() + wait;
    const count = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      if (left <= 0) return connect();
      show("reconnecting", `reconnecting in ${left} s`);
      timer = setTimeout(count, Math.min(1000, until - Date.now()));
    };
    count();
  }
  function drop() {
    clearTimeout(timer);
    clearTimeout(silence);
    const old = socket;
    socket = null;
    if (old) old.close();
  }
  function listen() {
    clearTimeout(silence);
    silence = setTimeout(retry, SILENCE_MS);
  }
  function onVisibility() {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        drop();
        show("paused", "paused");
      }, HIDDEN_MS);
    } else if (!socket) {
      show("connecting", "connecting");
      connect();
    }
  }
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("pagehide", leave);
  function leave() {
    leaving = true;
    drop();
  }
  function onReturn(event) {
    if (!event.persisted) return;
    leaving = false;
    connect();
  }
  addEventListener("pageshow", onReturn);
  connect();
  if (document.hidden) onVisibility(); // opened in the background
  return () => {
    leave();
    document.removeEventListener("visibilitychange", onVisibility);
    removeEventListener("pagehide", leave);
    removeEventListener("pageshow", onReturn);
  };
}

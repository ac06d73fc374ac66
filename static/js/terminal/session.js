// One session: a socket that comes again for 30 s, input at the pace at which it is read, output that is acknowledged.
const AGAIN_MS = 1_000;
const GIVE_UP_MS = 30_000; // the node ends the session then
const WINDOW_BYTES = 256 * 1024;
const FRAME_BYTES = 16 * 1024;
const TAKEN_EVERY_MS = 50;
const LOST = "The session ended: the server was away for 30 s.";

/** @typedef {{rank: number, rows: number, columns: number}} Wish */
/** @typedef {{exit_code?: number | null, code: string, sentence: string}} End */
/**
 * @typedef {{
 *   onStart: (session: string, node: string) => void,
 *   onAway: () => void,
 *   onBegin: () => void,
 *   onOutput: (data: Uint8Array, done: () => void) => void,
 *   onEnd: (end: End) => void,
 * }} Hooks
 */
export class Session {
  /** @param {string} path @param {Wish} wish @param {Hooks} hooks @param {string} [session] go on with this one */
  constructor(path, wish, hooks, session = "") {
    this.path = path;
    this.wish = wish;
    this.hooks = hooks;
    this.session = session;
    this.last = 0; // the last frame that was shown
    this.waiting = new Uint8Array(); // typed, and not sent yet
    this.sent = 0;
    this.passed = 0;
    this.isOver = false;
    this.awaySince = 0;
    this.takenTimer = 0;
    this.againTimer = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.connect();
  }

  connect() {
    const url = new URL(this.path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      const wish = { ...this.wish, terminal: true, input: true };
      socket.send(JSON.stringify(this.session ? { ...wish, session: this.session, since: this.last } : wish));
    });
    socket.addEventListener("message", ({ data }) => this.receive(data));
    socket.addEventListener("close", () => this.socket === socket && this.onClose());
    this.socket = socket;
  }

  /** @param {string | ArrayBuffer} data */
  receive(data) {
    if (typeof data === "string") {
      const message = JSON.parse(data);
      if (message.type === "ended") this.finish(message);
      if (message.type !== "started") return;
      this.session = message.session;
      this.awaySince = 0;
      this.hooks.onStart(message.session, message.node);
      this.pump();
      return;
    }
    const { kind, number, payload } = readFrame(data);
    if (kind === KIND.output) {
      this.hooks.onOutput(payload.subarray(1), () => this.take(number));
      return;
    }
    if (kind === KIND.begun) this.hooks.onBegin();
    if (kind === KIND.credit) {
      const view = new DataView(payload.buffer, payload.byteOffset);
      this.passed = Number(view.getBigUint64(0)); // how many bytes of input have reached the command
      this.pump();
    }
    if (this.last === number - 1) this.take(number);
  }

  /** The frame, and all before it, has been shown; the node hears of it now and then. @param {number} number */
  take(number) {
    this.last = Math.max(this.last, number);
    this.takenTimer ||= setTimeout(() => {
      this.takenTimer = 0;
      const view = new DataView(new ArrayBuffer(NUMBER_BYTES));
      view.setBigUint64(0, BigInt(this.last));
      this.send(frame(KIND.taken, new Uint8Array(view.buffer)));
    }, TAKEN_EVERY_MS);
  }

  /** @param {string | Uint8Array} data */
  type(data) {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const joined = new Uint8Array(this.waiting.length + bytes.length);
    joined.set(this.waiting);
    joined.set(bytes, this.waiting.length);
    this.waiting = joined;
    this.pump();
  }

  pump() {
    while (this.waiting.length && this.isOpen && this.sent - this.passed < WINDOW_BYTES) {
      const part = this.waiting.subarray(0, FRAME_BYTES);
      this.waiting = this.waiting.subarray(part.length);
      this.sent += part.length;
      this.send(frame(KIND.input, part));
    }
  }

  /** @param {number} rows @param {number} columns */
  resize(rows, columns) {
    this.wish = { ...this.wish, rows, columns };
    const view = new DataView(new ArrayBuffer(4));
    view.setUint16(0, rows);
    view.setUint16(2, columns);
    this.send(frame(KIND.size, new Uint8Array(view.buffer)));
  }

  end() {
    if (this.isOpen) this.send(frame(KIND.end));
    else this.finish({ code: "ended", sentence: "The session was ended." });
  }

  get isOpen() {
    return this.session !== "" && this.awaySince === 0 && this.socket?.readyState === WebSocket.OPEN;
  }

  /** @param {Uint8Array<ArrayBuffer>} bytes */
  send(bytes) {
    if (this.isOpen) this.socket?.send(bytes);
  }

  onClose() {
    if (this.isOver) return;
    if (!this.session) {
      this.finish({ code: "lost", sentence: "The server cannot be reached. Try again soon." });
      return;
    }
    if (!this.awaySince) this.hooks.onAway();
    this.awaySince ||= Date.now();
    if (Date.now() - this.awaySince > GIVE_UP_MS) this.finish({ code: "lost", sentence: LOST });
    else this.againTimer = setTimeout(() => this.connect(), AGAIN_MS);
  }

  /** @param {End} end */
  finish(end) {
    if (this.isOver) return;
    this.isOver = true;
    this.leave();
    this.hooks.onEnd(end);
  }

  // Without a word to the node: it keeps the session for a while.
  leave() {
    this.isOver = true;
    clearTimeout(this.takenTimer);
    clearTimeout(this.againTimer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}

// Messages of a session's socket: a byte for the kind, then what it carries. See docs/interactive.md.
const KIND = { input: 1, size: 3, taken: 4, end: 6, output: 20, begun: 21, ended: 22, alive: 23, credit: 24 };
const NUMBER_BYTES = 8;

/** @param {number} kind @param {Uint8Array} [payload] */
function frame(kind, payload = new Uint8Array()) {
  const bytes = new Uint8Array(payload.length + 1);
  bytes[0] = kind;
  bytes.set(payload, 1);
  return bytes;
}

/** @param {ArrayBuffer} buffer */
function readFrame(buffer) {
  const view = new DataView(buffer);
  const payload = new Uint8Array(buffer, 1 + NUMBER_BYTES);
  return { kind: view.getUint8(0), number: Number(view.getBigUint64(1)), payload };
}

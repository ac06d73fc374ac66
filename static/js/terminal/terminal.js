// The Terminal tab: xterm.js, a session, and the tools around them.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { colour, faded } from "../shared/colours.js";
import { store, stored } from "../shared/stored.js";
import { Session } from "./session.js";

const KEPT_MS = 30_000; // a session is gone on with after a reload
/** @type {Record<string, string>} */
const KEYS = { escape: "\x1b", tab: "\t", interrupt: "\x03", up: "\x1b[A", down: "\x1b[B" };

/** @param {HTMLElement} root */
export function mount(root) {
  const view = new View(root);
  return () => view.unmount();
}

class View {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.path = root.dataset.socket ?? "";
    this.screen = /** @type {HTMLElement} */ (root.querySelector("[data-screen]"));
    this.state = /** @type {HTMLElement} */ (root.querySelector("[data-sentence]"));
    this.ranks = /** @type {HTMLSelectElement} */ (root.querySelector("[name=rank]"));
    this.restoreStyles = divertStyles();
    this.terminal = new Terminal({
      fontFamily: getComputedStyle(root).getPropertyValue("--mono") || "monospace",
      fontSize: 13,
      scrollback: 5_000,
      theme: theme(),
      linkHandler: { activate: () => {} }, // a program's output opens nothing
    });
    this.fit = new FitAddon();
    /** @type {Session | null} */
    this.session = null;
    this.open();
  }

  open() {
    this.terminal.loadAddon(this.fit);
    this.terminal.open(this.screen);
    this.terminal.attachCustomKeyEventHandler((event) => this.takesKey(event));
    this.terminal.onData((text) => this.session?.type(text));
    this.terminal.onBinary((text) => this.session?.type(Uint8Array.from(text, (one) => one.charCodeAt(0))));
    this.terminal.onResize(({ rows, cols }) => this.session?.resize(rows, cols));
    this.observer = new ResizeObserver(() => this.fit.fit());
    this.observer.observe(this.screen);
    this.screen.addEventListener("keydown", (event) => event.stopPropagation()); // the page's own keys are the shell's
    this.root.addEventListener("click", this.onClick);
    this.onTheme = () => void (this.terminal.options.theme = theme());
    addEventListener("themechange", this.onTheme);
    document.fonts.ready.then(() => this.fit.fit());
    this.fit.fit();
    const kept = this.kept();
    if (kept) this.begin(kept.rank, kept.session);
  }

  unmount() {
    this.session?.leave();
    this.observer?.disconnect();
    this.root.removeEventListener("click", this.onClick);
    if (this.onTheme) removeEventListener("themechange", this.onTheme);
    this.terminal.dispose();
    this.restoreStyles();
  }

  /** @param {number} rank @param {string} [session] */
  begin(rank, session = "") {
    this.session?.end();
    if (!session) this.terminal.reset();
    this.show("is-busy", "Starting…");
    const { rows, cols } = this.terminal;
    /** @type {import("./session.js").Hooks} */
    const hooks = {
      onStart: (id, node) => {
        this.keep(rank, id);
        this.show("is-live", `Rank ${rank} on ${node}`);
        if (!session) this.terminal.focus();
      },
      onBegin: () => this.fit.fit(),
      onAway: () => this.show("is-busy", "The connection was lost. Reconnecting…"),
      onOutput: (data, done) => this.terminal.write(data, done),
      onEnd: ({ sentence }) => {
        store("sessionStorage", this.path, null);
        this.session = null;
        this.show("is-over", sentence || "The session has ended.");
      },
    };
    this.session = new Session(this.path, { rank, rows, columns: cols }, hooks, session);
  }

  /** @param {string} state @param {string} sentence */
  show(state, sentence) {
    this.root.classList.remove("is-busy", "is-live", "is-over");
    this.root.classList.add(state);
    this.state.textContent = sentence;
  }

  /** @param {MouseEvent} event */
  onClick = (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (!button) return;
    if (button.dataset.do === "open") this.begin(Number(this.ranks.value));
    if (button.dataset.do === "end") this.session?.end();
    if (button.dataset.do === "copy") this.copy();
    if (button.dataset.do === "paste") this.paste();
    if (button.dataset.key) {
      this.session?.type(KEYS[button.dataset.key]);
      this.terminal.focus();
    }
  };

  // Whether xterm.js is to take the key. Copying and pasting is the browser's, and Ctrl+F6 leaves the terminal.
  /** @param {KeyboardEvent} event */
  takesKey(event) {
    if (event.type !== "keydown") return true;
    const isControl = (event.ctrlKey || event.metaKey) && !event.altKey;
    const key = event.key.toLowerCase();
    if (isControl && key === "f6") {
      this.ranks.focus();
      return false;
    }
    if (isControl && key === "v") return false;
    if (isControl && key === "c" && this.terminal.hasSelection()) {
      if (event.shiftKey) {
        event.preventDefault();
        this.copy();
      }
      return false;
    }
    return true;
  }

  async copy() {
    const { terminal } = this;
    const hadSelection = terminal.hasSelection();
    if (!hadSelection) terminal.selectAll();
    const text = terminal.getSelection();
    if (!hadSelection) terminal.clearSelection();
    await navigator.clipboard.writeText(text).catch(() => this.show("is-live", "The browser does not let us copy."));
  }

  async paste() {
    const text = await navigator.clipboard.readText().catch(() => null);
    if (text === null) this.state.textContent = "The browser does not let us paste: use its own key or menu.";
    else this.terminal.paste(text);
    this.terminal.focus();
  }

  /** A reload of the tab goes on with its session. @param {number} rank @param {string} session */
  keep(rank, session) {
    const write = () => store("sessionStorage", this.path, { rank, session, at: Date.now() });
    write();
    addEventListener("pagehide", () => this.session?.session === session && write(), { once: true });
  }

  kept() {
    const found = stored("sessionStorage", this.path);
    return found && Date.now() - found.at < KEPT_MS ? found : null;
  }
}

// The terminal's colours from the page's own, for the theme of the moment.
/** @type {Record<string, string>} */
const TOKENS = {
  black: "terminal-black",
  red: "red",
  green: "green",
  yellow: "amber",
  blue: "blue",
  magenta: "violet",
  cyan: "terminal-cyan",
  white: "terminal-white",
};

function theme() {
  const text = colour("text");
  /** @type {Record<string, string>} */
  const found = {
    background: colour("surface"),
    foreground: text,
    cursor: text,
    cursorAccent: colour("surface"),
    selectionBackground: faded(colour("accent"), 0.35),
    scrollbarSliderBackground: faded(text, 0.2),
    scrollbarSliderHoverBackground: faded(text, 0.35),
    scrollbarSliderActiveBackground: faded(text, 0.5),
  };
  for (const [name, token] of Object.entries(TOKENS)) {
    found[name] = colour(token);
    found[`bright${name[0].toUpperCase()}${name.slice(1)}`] = colour(token);
  }
  found.brightBlack = colour("faint");
  return found;
}

// While a terminal is there, styles that it makes go through the object model: the page's policy admits no inline ones.
// xterm.js makes <style> elements, and spans with a style attribute for colours beyond the palette.

// In the place of a <style> stands an element that shows nothing; its text becomes a sheet of the document.
/** @param {Set<CSSStyleSheet>} sheets */
function styleElement(sheets) {
  const sheet = new CSSStyleSheet();
  sheets.add(sheet);
  document.adoptedStyleSheets.push(sheet);
  const element = document.createElement("template");
  Object.defineProperty(element, "textContent", { set: (text) => sheet.replaceSync(text) });
  return element;
}

/** @this {HTMLElement} @param {string} name @param {string} value */
function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

// Returns what ends it.
function divertStyles() {
  /** @type {Set<CSSStyleSheet>} */
  const sheets = new Set();
  const createElement = document.createElement.bind(document);

  /** @param {string} name @param {ElementCreationOptions} [options] */
  const diverting = (name, options) => {
    if (name === "style") return styleElement(sheets);
    const element = createElement(name, options);
    if (name === "span") element.setAttribute = setAttribute;
    return element;
  };
  Object.assign(document, { createElement: diverting });
  return () => {
    Reflect.deleteProperty(document, "createElement");
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
  };
}

// Ctrl-K: jump to a page or a run by name, to what was open lately, and do what this page has a button for.
import { all, choose, make, need, seek } from "../shared/dom.js";
import { store, stored } from "../shared/stored.js";

/** @typedef {{label: string, kind: string, url?: string, button?: HTMLElement}} Item */

const BUTTONS = "#main button, #main a.btn, #main .menu a, [data-theme-switch]";
const NOT_THESE = "table, dialog, [role=grid], [data-module~=charts], [hidden], :disabled, [popovertarget]";
const THINGS = /^\/(runs|sweeps|jobs|nodes|data|reports)\/\w+\/$/;
const LATELY = "lately";
const HERE = "on this page";
const MAX_RECENT = 4;
const MAX_SHOWN = 24;

/** @param {HTMLDialogElement} dialog */
export function mount(dialog) {
  const input = /** @type {HTMLInputElement} */ (dialog.querySelector("input"));
  const list = need(dialog, "ul");
  const person = dialog.dataset.person ?? "";
  let timer = 0;
  let asked = 0;
  let drawn = ""; // the words that the list is of
  let isEntered = false; // before it was
  remember();

  function open() {
    if (dialog.open) return;
    input.value = "";
    isEntered = false;
    dialog.showModal();
    ask();
  }
  async function ask() {
    const mine = ++asked;
    const words = input.value;
    const url = `${dialog.dataset.url}?q=${encodeURIComponent(words)}`;
    const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    if (mine !== asked) return;
    const found = answer?.ok ? (await answer.json()).items : [];
    const lately = recent();
    const pages = found.filter((/** @type {Item} */ { url }) => !lately.some((one) => one.url === url));
    draw(words.trim() ? sorted([...lately, ...pages, ...buttons()]) : [...lately, ...buttons(), ...pages]);
    drawn = words;
    if (isEntered) enter();
  }
  // What has the words as they were typed comes first, and pages before actions: Enter acts on nothing by chance.
  /** @param {Item[]} items */
  function sorted(items) {
    const words = input.value.trim().toLowerCase();
    const fits = fitting(words);
    /** @param {string} label */
    const farOff = (label) => (label === words ? 0 : label.includes(words) ? 2 : 4);
    /** @param {Item} item */
    const rank = ({ label, button }) => farOff(label.toLowerCase()) + (button ? 1 : 0);
    return items
      .filter(({ kind, label }) => !(kind === LATELY || kind === HERE) || fits(label)) // the server chose the others
      .sort((one, other) => rank(one) - rank(other))
      .slice(0, MAX_SHOWN);
  }
  /** @returns {Item[]} */
  function recent() {
    const kept = stored("localStorage", "recent");
    return kept?.person === person && Array.isArray(kept.items)
      ? kept.items.filter((/** @type {Item} */ { url }) => url !== location.pathname)
      : [];
  }
  function remember() {
    const label = seek(document, "#main h1")?.textContent?.trim();
    if (!label || !THINGS.test(location.pathname)) return;
    const items = [{ label, kind: LATELY, url: location.pathname }, ...recent()].slice(0, MAX_RECENT);
    store("localStorage", "recent", { person, items });
  }
  const shown = /** @type {WeakMap<HTMLElement, Item>} */ (new WeakMap());
  /** @param {Item[]} items */
  function draw(items) {
    list.replaceChildren(
      ...items.map((item, index) => {
        const words = make("span", { className: "clip", textContent: item.label });
        const kind = make("span", { className: "push", textContent: item.kind });
        const line = make("li", { id: `palette-${index}`, role: "option" }, words, kind);
        shown.set(line, item);
        return line;
      }),
    );
    if (!items.length) list.append(make("li", { className: "nothing", textContent: "Nothing of that name." }));
    choose(input, all(list, "[role=option]"), 0);
  }
  /** @param {HTMLElement | null | undefined} line */
  function go(line) {
    const item = line && shown.get(line);
    if (!item) return;
    if (item.url) return location.assign(item.url);
    dialog.close();
    item.button?.click(); // it asks before it acts
  }
  // What is meant is what the whole word finds, not what stood there before it came.
  function enter() {
    isEntered = input.value !== drawn;
    if (!isEntered) go(seek(list, "[aria-selected=true]"));
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const lines = all(list, "[role=option]");
    const at = lines.findIndex((line) => line.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") choose(input, lines, (at + 1) % lines.length);
    else if (event.key === "ArrowUp") choose(input, lines, (at - 1 + lines.length) % lines.length);
    else if (event.key === "Enter") enter();
    else return;
    event.preventDefault();
  }
  /** @param {KeyboardEvent} event */
  function onDocumentKey(event) {
    if (event.key?.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    open();
  }
  /** @param {MouseEvent} event */
  function onDocumentClick(event) {
    if (event.target instanceof Element && event.target.closest("[data-open-palette]")) open();
    if (event.target === dialog) dialog.close();
  }
  input.addEventListener("input", () => {
    clearTimeout(timer);
    isEntered = false;
    timer = setTimeout(ask, 90);
  });
  input.addEventListener("keydown", onKey);
  list.addEventListener("click", ({ target }) => target instanceof Element && go(target.closest("li[role=option]")));
  document.addEventListener("keydown", onDocumentKey);
  document.addEventListener("click", onDocumentClick);
  return () => {
    document.removeEventListener("keydown", onDocumentKey);
    document.removeEventListener("click", onDocumentClick);
  };
}

// Whether a text has the letters of each word, in their order: "thr" finds Throughput.
/** @param {string} words */
function fitting(words) {
  const letters = words.toLowerCase().split(/\s+/);
  return (/** @type {string} */ text) =>
    letters.every((word) => {
      let at = -1;
      return [...word].every((letter) => (at = text.toLowerCase().indexOf(letter, at + 1)) >= 0);
    });
}

// What the page at hand has buttons for, also those in its menus, each once.
/** @returns {Item[]} */
function buttons() {
  const found = all(document, BUTTONS).filter((one) => !one.matches(NOT_THESE) && !one.closest(NOT_THESE));
  const named = found.map((button) => ({ label: nameOf(button), kind: HERE, button }));
  return [...new Map(named.filter(({ label }) => label).map((one) => [one.label, one])).values()];
}

/** @param {HTMLElement} button */
function nameOf(button) {
  return (button.ariaLabel ?? button.textContent ?? "").replace(/\s+/g, " ").trim();
}

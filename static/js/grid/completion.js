// Completion of a filter while one types: fields, and the values of the few that have some. All of it is fetched once
// and looked through here, so that no key waits for the server.

import { make, need } from "../shared/dom.js";
import { known } from "./names.js";

const MOST = 12;
const VALUE = /(?:^|[\s(])"?([^\s()"<>=!~,]+)"?\s*(?:!=|<=|>=|=|<|>|~|in\s*\((?:[^()]*,)?)\s*("?)([^\s()",]*)$/;
const WORD = /("?)([^\s()"<>=!~,]*)$/;

/** @typedef {{from: number, words: string, options: string[]}} Offer */

/** @param {HTMLInputElement} input */
export function mount(input) {
  const list = need(/** @type {HTMLElement} */ (input.parentElement), "[role=listbox]");
  /** @type {Offer | null} */
  let offer = null;
  let at = -1;
  let number = 0;

  async function look() {
    const mine = (number += 1);
    const all = await known(input);
    if (mine !== number || document.activeElement !== input) return;
    offer = offerFor(input.value.slice(0, input.selectionStart ?? 0), all);
    at = -1;
    draw();
  }
  function draw() {
    const options = offer?.options ?? [];
    const lines = options.map((text, index) =>
      make("li", { id: `completion-${index}`, role: "option", ariaSelected: String(index === at) }, text),
    );
    list.replaceChildren(...lines);
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (at >= 0) input.setAttribute("aria-activedescendant", `completion-${at}`);
    else input.removeAttribute("aria-activedescendant");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }
  function close() {
    number += 1;
    offer = null;
    draw();
  }
  /** @param {number} index */
  function take(index) {
    if (!offer) return;
    const end = input.selectionStart ?? 0;
    const text = `${quoted(offer.options[index])} `;
    input.setRangeText(text, offer.from, end, "end");
    close();
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const count = offer?.options.length ?? 0;
    if (!count) return;
    if (event.key === "ArrowDown") at = (at + 1) % count;
    else if (event.key === "ArrowUp") at = (at <= 0 ? count : at) - 1;
    else if ((event.key === "Enter" || event.key === "Tab") && at >= 0) {
      event.preventDefault();
      return take(at);
    } else if (event.key === "Escape") {
      event.preventDefault(); // it would empty the field
      return close();
    } else return;
    event.preventDefault();
    draw();
  }
  /** @param {PointerEvent} event */
  function onPointer(event) {
    event.preventDefault(); // the field keeps the focus
    const index = [...list.children].indexOf(/** @type {Element} */ (event.target));
    if (index >= 0) take(index);
  }
  input.addEventListener("input", look);
  input.addEventListener("complete", look);
  input.addEventListener("keydown", onKey);
  input.addEventListener("blur", close);
  list.addEventListener("pointerdown", onPointer);
}

// What may stand at the end of the text: values behind a field and a sign, else fields.
/** @param {string} text @param {import("./names.js").Known} known @returns {Offer | null} */
export function offerFor(text, { names, values }) {
  const value = VALUE.exec(text);
  if (value) {
    const known = values[value[1].toLowerCase()];
    return known ? fitting(text, value[2] + value[3], value[3], known) : null;
  }
  const word = WORD.exec(text);
  const fields = names.filter(({ kind }) => kind !== "column").map(({ name }) => name);
  return word?.[2] ? fitting(text, word[0], word[2], fields) : null;
}

/** @param {string} text @param {string} typed @param {string} words @param {string[]} all @returns {Offer | null} */
function fitting(text, typed, words, all) {
  const low = words.toLowerCase();
  const found = all.filter((one) => one.toLowerCase().includes(low) && one !== words);
  found.sort((one, two) => Number(two.toLowerCase().startsWith(low)) - Number(one.toLowerCase().startsWith(low)));
  return found.length ? { from: text.length - typed.length, words, options: found.slice(0, MOST) } : null;
}

/** @param {string} text */
function quoted(text) {
  return /^[^\s()"'<>=!~,]+$/.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;
}

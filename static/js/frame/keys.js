// Keys of every page: `?` shows them, `/` goes to the page's filter, `g r` and its like go to pages, and the key in a
// button's `data-hotkey` presses it.
import { all, seek } from "../shared/dom.js";

export function startKeys() {
  let isGoing = 0;
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-open-keys]")) showKeys();
  });
  document.addEventListener("keydown", (event) => {
    const isOthers = event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target);
    if (isOthers || document.querySelector("dialog[open]")) return;
    if (isGoing && Date.now() - isGoing < 1200) {
      isGoing = 0;
      const link = seek(document, `[data-keys="g ${CSS.escape(event.key)}"]`);
      if (!(link instanceof HTMLAnchorElement)) return;
      event.preventDefault();
      return location.assign(link.href);
    }
    if (event.key === "g") isGoing = Date.now();
    if (event.key === "?") showKeys();
    const button = seek(document, `[data-hotkey="${CSS.escape(event.key)}"]`); // it asks before it acts
    const field = event.key === "/" ? seek(document, "[data-filter-key]") : null;
    if (button || field) event.preventDefault();
    button?.click();
    if (!(field instanceof HTMLInputElement)) return;
    field.focus();
    field.select();
  });
}

// Every key is listed; those of what this page has come first.
function showKeys() {
  const dialog = /** @type {HTMLDialogElement | null} */ (document.getElementById("keys"));
  if (!dialog) return;
  /** @param {HTMLElement} part */
  const isHere = ({ dataset }) =>
    (dataset.keysOf ?? "").split(" ").some((name) => document.querySelector(`[data-module~="${name}"]`));
  dialog.querySelector(".keys-parts")?.prepend(...all(dialog, "[data-keys-of]").filter(isHere));
  dialog.showModal();
}

/** @param {EventTarget | null} element */
function isTyping(element) {
  const fields = "input:not([type=checkbox]):not([type=range]), textarea, select, [contenteditable]";
  return element instanceof Element && element.matches(fields);
}

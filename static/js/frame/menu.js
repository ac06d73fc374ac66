// Places a popover beside the button that opens it, and moves through it with the arrow keys.
import { all, seek } from "../shared/dom.js";

/** @type {Record<string, number>} */
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

/** @param {HTMLElement} menu */
export function mount(menu) {
  function place() {
    const of = `[popovertarget="${menu.id}"]`;
    const opener = document.activeElement?.closest(of) ?? document.querySelector(of); // of several the pressed one
    if (!opener) return;
    const at = opener.getBoundingClientRect();
    const left = Math.min(at.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8);
    const isBelow = at.bottom + menu.offsetHeight + 8 < innerHeight;
    menu.style.left = `${Math.max(8, left)}px`;
    menu.style.top = `${isBelow ? at.bottom + 4 : Math.max(8, at.top - menu.offsetHeight - 4)}px`;
  }
  /** @param {ToggleEvent} event */
  function onToggle(event) {
    if (event.newState !== "open") return;
    place();
    (seek(menu, "input.form-control") ?? items()[0])?.focus(/** @type {FocusOptions} */ ({ focusVisible: false }));
  }
  const items = () => all(menu, "a[href], button:not(:disabled, [hidden]), input[type=checkbox]:not(:disabled)");
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const lines = items();
    const at = lines.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    lines[(at + step + lines.length) % lines.length]?.focus();
  }
  /** @param {MouseEvent} event */
  function onClick(event) {
    const closing = "a, [data-closes], button[type=submit], form button";
    if (event.target instanceof Element && event.target.closest(closing)) menu.hidePopover();
  }
  menu.addEventListener("toggle", onToggle);
  menu.addEventListener("keydown", onKey);
  menu.addEventListener("click", onClick);
}

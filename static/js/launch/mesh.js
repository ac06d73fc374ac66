// A drawing of parts, such as the ranks of a mesh: says in words what the part is that one points at or that has the
// focus, and lights up the ranks that belong to it; arrow keys move on.
import { all, need, put } from "../shared/dom.js";

/** @param {HTMLElement} drawing @param {(part: HTMLElement) => string | null | undefined} wordsOf */
export function mount(drawing, wordsOf = (part) => part.firstElementChild?.textContent) {
  const line = need(drawing, "[data-words]");
  const hint = line.textContent;
  /** @type {Record<string, number>} */
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  /** @type {HTMLElement | null} */
  let shown = null;

  /** @param {HTMLElement | null} part */
  function show(part) {
    shown = part;
    put(line, part?.isConnected ? (wordsOf(part) ?? hint) : hint);
    const lit = new Set(part?.dataset.ranks?.split(" "));
    for (const one of all(drawing, "[data-rank]")) one.classList.toggle("is-lit", lit.has(`${one.dataset.rank}`));
  }
  /** @param {EventTarget | null} target @returns {HTMLElement | null} */
  function partAt(target) {
    return target instanceof Element ? target.closest("[data-part]") : null;
  }
  /** @param {Event} event */
  function onPoint(event) {
    show(partAt(event.target) ?? partAt(document.activeElement));
  }
  /** @param {Event} event */
  function onFocus(event) {
    const part = partAt(event.target);
    if (!part) return;
    for (const other of all(drawing, "[data-part]")) if (other.tabIndex === 0) other.tabIndex = -1;
    part.tabIndex = 0;
    show(part);
  }
  function onLeave() {
    show(drawing.contains(document.activeElement) ? partAt(document.activeElement) : null);
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const step = steps[event.key];
    const part = partAt(event.target);
    if (!step || !part) return;
    event.preventDefault();
    const parts = all(drawing, "[data-part]");
    parts[Math.min(parts.length - 1, Math.max(0, parts.indexOf(part) + step))].focus();
  }

  const changes = new MutationObserver(() => show(shown)); // the drawing is patched while one looks at it
  const what = { subtree: true, childList: true, characterData: true, attributeFilter: ["class"] };
  changes.observe(need(drawing, "[data-parts]"), what);
  drawing.addEventListener("pointerover", onPoint);
  drawing.addEventListener("pointerleave", onLeave);
  drawing.addEventListener("focusin", onFocus);
  drawing.addEventListener("focusout", onLeave);
  drawing.addEventListener("keydown", onKey);
  return () => changes.disconnect();
}

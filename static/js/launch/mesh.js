// The drawing of the mesh: says in words where the rank stands that one points at or that has the focus; arrow keys
// move on.
import { all, need, put } from "../shared/dom.js";

/** @param {HTMLElement} drawing */
export function mount(drawing) {
  const line = need(drawing, "[data-words]");
  const hint = line.textContent;
  /** @type {Record<string, number>} */
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  /** @type {HTMLElement | null} */
  let shown = null;

  /** @param {HTMLElement | null} rank */
  function show(rank) {
    shown = rank;
    put(line, rank?.isConnected ? (rank.firstElementChild?.textContent ?? hint) : hint);
  }
  /** @param {EventTarget | null} target @returns {HTMLElement | null} */
  function rankAt(target) {
    return target instanceof Element ? target.closest(".mesh-rank") : null;
  }
  /** @param {Event} event */
  function onPoint(event) {
    show(rankAt(event.target) ?? rankAt(document.activeElement));
  }
  /** @param {Event} event */
  function onFocus(event) {
    const rank = rankAt(event.target);
    if (!rank) return;
    for (const other of all(drawing, ".mesh-rank")) if (other.tabIndex === 0) other.tabIndex = -1;
    rank.tabIndex = 0;
    show(rank);
  }
  function onLeave() {
    show(drawing.contains(document.activeElement) ? rankAt(document.activeElement) : null);
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const step = steps[event.key];
    const rank = rankAt(event.target);
    if (!step || !rank) return;
    event.preventDefault();
    const ranks = all(drawing, ".mesh-rank");
    ranks[Math.min(ranks.length - 1, Math.max(0, ranks.indexOf(rank) + step))].focus();
  }

  const changes = new MutationObserver(() => show(shown)); // the drawing is patched while one looks at it
  changes.observe(need(drawing, ".mesh"), { subtree: true, childList: true, characterData: true });
  drawing.addEventListener("pointerover", onPoint);
  drawing.addEventListener("pointerleave", onLeave);
  drawing.addEventListener("focusin", onFocus);
  drawing.addEventListener("focusout", onLeave);
  drawing.addEventListener("keydown", onKey);
  return () => changes.disconnect();
}

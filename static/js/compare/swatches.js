// A small palette beside the button that asks for a colour.

// Returns open(button, index): shows the ten with that one chosen; onPick(button, index) is called with the choice.
/** @param {HTMLElement} palette @param {(button: HTMLElement, index: number) => void} onPick */
export function startSwatches(palette, onPick) {
  const choices = /** @type {HTMLElement[]} */ ([...palette.querySelectorAll("[data-index]")]);
  /** @type {HTMLElement | null} */
  let opener = null;

  /** @param {HTMLElement} button @param {number} index */
  function open(button, index) {
    opener = button;
    palette.setAttribute("aria-label", button.getAttribute("aria-label") ?? "");
    for (const one of choices) one.setAttribute("aria-pressed", String(Number(one.dataset.index) === index));
    palette.showPopover();
    const at = button.getBoundingClientRect();
    palette.style.left = `${Math.max(8, Math.min(at.left, innerWidth - palette.offsetWidth - 8))}px`;
    palette.style.top = `${Math.min(at.bottom + 4, innerHeight - palette.offsetHeight - 8)}px`;
    choices[index]?.focus();
  }
  /** @param {Event} event */
  function onClick(event) {
    const target = /** @type {Element} */ (event.target);
    const choice = /** @type {HTMLElement | null} */ (target.closest("[data-index]"));
    if (!choice || !opener) return;
    palette.hidePopover();
    onPick(opener, Number(choice.dataset.index));
    opener.focus();
  }
  /** @type {Record<string, number>} */
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 5, ArrowUp: -5 };
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const at = choices.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    choices[(at + step + choices.length) % choices.length].focus();
  }
  palette.addEventListener("click", onClick);
  palette.addEventListener("keydown", onKey);
  return open;
}

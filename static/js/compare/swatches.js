// A small palette beside the button that asks for a colour.

// Returns open(button, index): shows the ten with that one chosen; onPick(button, index) is called with the choice.
export function startSwatches(palette, onPick) {
  const choices = [...palette.querySelectorAll("[data-index]")];
  let opener = null;

  function open(button, index) {
    opener = button;
    palette.setAttribute("aria-label", button.getAttribute("aria-label"));
    for (const one of choices) one.setAttribute("aria-pressed", Number(one.dataset.index) === index);
    palette.showPopover();
    const at = button.getBoundingClientRect();
    palette.style.left = `${Math.max(8, Math.min(at.left, innerWidth - palette.offsetWidth - 8))}px`;
    palette.style.top = `${Math.min(at.bottom + 4, innerHeight - palette.offsetHeight - 8)}px`;
    choices[index]?.focus();
  }
  function onClick(event) {
    const choice = event.target.closest("[data-index]");
    if (!choice) return;
    palette.hidePopover();
    onPick(opener, Number(choice.dataset.index));
    opener?.focus();
  }
  function onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 5, ArrowUp: -5 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = choices.indexOf(document.activeElement);
    choices[(at + step + choices.length) % choices.length].focus();
  }
  palette.addEventListener("click", onClick);
  palette.addEventListener("keydown", onKey);
  return open;
}

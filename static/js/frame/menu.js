// Places a popover beside the button that opens it, and moves through it with the arrow keys.
export function mount(menu) {
  function place() {
    const opener = document.querySelector(`[popovertarget="${menu.id}"]`);
    if (!opener) return;
    const at = opener.getBoundingClientRect();
    const left = Math.min(at.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8);
    const isBelow = at.bottom + menu.offsetHeight + 8 < innerHeight;
    menu.style.left = `${Math.max(8, left)}px`;
    menu.style.top = `${isBelow ? at.bottom + 4 : Math.max(8, at.top - menu.offsetHeight - 4)}px`;
  }
  function onToggle(event) {
    if (event.newState !== "open") return;
    place();
    items()[0]?.focus({ focusVisible: false });
  }
  function items() {
    return [...menu.querySelectorAll("a[href], button:not(:disabled), input[type=checkbox]")];
  }
  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = items();
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length]?.focus();
  }
  function onClick(event) {
    if (event.target.closest("a, [data-closes], button[type=submit], form button")) menu.hidePopover();
  }
  menu.addEventListener("toggle", onToggle);
  menu.addEventListener("keydown", onKey);
  menu.addEventListener("click", onClick);
}

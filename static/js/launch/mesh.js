// The drawing of the mesh: says in words where the rank stands that one points at or that has the focus; arrow keys
// move on.
export function mount(drawing) {
  const line = drawing.querySelector("[data-words]");
  const hint = line.textContent;
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  let shown = null;

  function show(rank) {
    shown = rank;
    const words = rank?.isConnected ? rank.firstElementChild.textContent : hint;
    if (line.textContent !== words) line.textContent = words;
  }
  function rankAt(target) {
    return target.closest?.(".mesh-rank") ?? null;
  }
  function onPoint(event) {
    show(rankAt(event.target) ?? rankAt(document.activeElement));
  }
  function onFocus(event) {
    const rank = rankAt(event.target);
    if (!rank) return;
    for (const other of drawing.querySelectorAll('.mesh-rank[tabindex="0"]')) other.tabIndex = -1;
    rank.tabIndex = 0;
    show(rank);
  }
  function onLeave() {
    show(drawing.contains(document.activeElement) ? rankAt(document.activeElement) : null);
  }
  function onKey(event) {
    const step = steps[event.key];
    const rank = rankAt(event.target);
    if (!step || !rank) return;
    event.preventDefault();
    const all = [...drawing.querySelectorAll(".mesh-rank")];
    all[Math.min(all.length - 1, Math.max(0, all.indexOf(rank) + step))].focus();
  }

  const changes = new MutationObserver(() => show(shown)); // the drawing is patched while one looks at it
  changes.observe(drawing.querySelector(".mesh"), { subtree: true, childList: true, characterData: true });
  drawing.addEventListener("pointerover", onPoint);
  drawing.addEventListener("pointerleave", onLeave);
  drawing.addEventListener("focusin", onFocus);
  drawing.addEventListener("focusout", onLeave);
  drawing.addEventListener("keydown", onKey);
  return () => changes.disconnect();
}

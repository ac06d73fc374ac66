// Checkboxes of a table and the bar that appears when some are set.
export function mount(form) {
  const bar = form.querySelector(".selection-bar");
  let before = null; // the box that was clicked last, for shift-click
  const boxes = () => [...form.querySelectorAll(".row-check:enabled")];

  function update() {
    const all = boxes();
    const chosen = all.filter((box) => box.checked).length;
    bar.hidden = chosen === 0;
    bar.querySelector("[data-count]").textContent = chosen;
    const head = form.querySelector("[data-check-all]");
    if (head) {
      head.checked = chosen > 0 && chosen === all.length;
      head.indeterminate = chosen > 0 && chosen < all.length;
    }
    form.dispatchEvent(new CustomEvent("selected", { bubbles: true })); // for those who show the bar for reasons of their own
  }
  function onClick(event) {
    const box = event.target;
    if (box.closest?.("[data-clear]")) return setAll(false);
    if (box.matches?.("[data-check-all]")) return setAll(box.checked);
    if (!box.matches?.(".row-check")) return;
    const all = boxes();
    if (event.shiftKey && before?.isConnected) {
      const [from, to] = [all.indexOf(before), all.indexOf(box)].sort((a, b) => a - b);
      for (const one of all.slice(from, to + 1)) one.checked = box.checked;
    }
    before = box;
    update();
  }
  function setAll(isChecked) {
    for (const box of boxes()) box.checked = isChecked;
    update();
  }
  function onKey(event) {
    if (event.key === "Escape" && !bar.hidden && !document.querySelector("dialog[open]")) setAll(false);
  }
  const watcher = new MutationObserver(update); // rows come and go
  watcher.observe(form.querySelector("[data-fragment]"), { childList: true, subtree: true });
  form.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  update();
  return () => {
    watcher.disconnect();
    document.removeEventListener("keydown", onKey);
  };
}

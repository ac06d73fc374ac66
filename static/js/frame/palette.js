// Ctrl-K: jump to a page or a run by name.
import { all, make, need } from "../shared/dom.js";

/** @param {HTMLDialogElement} dialog */
export function mount(dialog) {
  const input = /** @type {HTMLInputElement} */ (dialog.querySelector("input"));
  const list = need(dialog, "ul");
  let timer = 0;
  let asked = 0;

  function open() {
    if (dialog.open) return;
    input.value = "";
    dialog.showModal();
    ask();
  }
  async function ask() {
    const mine = ++asked;
    const answer = await fetch(`${dialog.dataset.url}?q=${encodeURIComponent(input.value)}`, {
      headers: { "X-Requested-With": "fetch" },
    }).catch(() => null);
    if (mine !== asked || !answer?.ok) return;
    draw((await answer.json()).items);
  }
  /** @param {{url: string, label: string, kind: string}[]} items */
  function draw(items) {
    list.replaceChildren(
      ...items.map((item, index) => {
        const words = make("span", { className: "clip", textContent: item.label });
        const kind = make("span", { className: "push", textContent: item.kind });
        const line = make("li", { id: `palette-${index}`, role: "option" }, words, kind);
        line.dataset.url = item.url;
        return line;
      }),
    );
    if (!items.length) list.append(make("li", { className: "nothing", textContent: "Nothing of that name." }));
    select(0);
  }
  /** @param {number} index */
  function select(index) {
    const lines = all(list, "[role=option]");
    lines.forEach((line, at) => line.setAttribute("aria-selected", String(at === index)));
    lines[index]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", lines[index]?.id ?? "");
  }
  /** @param {HTMLElement | null | undefined} line */
  function go(line) {
    if (line) location.assign(line.dataset.url ?? "");
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const lines = all(list, "[role=option]");
    const at = lines.findIndex((line) => line.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") select((at + 1) % lines.length);
    else if (event.key === "ArrowUp") select((at - 1 + lines.length) % lines.length);
    else if (event.key === "Enter") go(lines[at]);
    else return;
    event.preventDefault();
  }
  /** @param {KeyboardEvent} event */
  function onDocumentKey(event) {
    if (event.key?.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    open();
  }
  /** @param {MouseEvent} event */
  function onDocumentClick(event) {
    if (event.target instanceof Element && event.target.closest("[data-open-palette]")) open();
    if (event.target === dialog) dialog.close();
  }
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 90);
  });
  input.addEventListener("keydown", onKey);
  list.addEventListener("click", ({ target }) => target instanceof Element && go(target.closest("li[role=option]")));
  document.addEventListener("keydown", onDocumentKey);
  document.addEventListener("click", onDocumentClick);
  return () => {
    document.removeEventListener("keydown", onDocumentKey);
    document.removeEventListener("click", onDocumentClick);
  };
}

// Ctrl-K: jump to a page or a run by name.
import { all, choose, make, need } from "../shared/dom.js";

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
    const url = `${dialog.dataset.url}?q=${encodeURIComponent(input.value)}`;
    const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
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
    choose(input, all(list, "[role=option]"), 0);
  }
  /** @param {HTMLElement | null | undefined} line */
  function go(line) {
    if (line) location.assign(line.dataset.url ?? "");
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const lines = all(list, "[role=option]");
    const at = lines.findIndex((line) => line.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") choose(input, lines, (at + 1) % lines.length);
    else if (event.key === "ArrowUp") choose(input, lines, (at - 1 + lines.length) % lines.length);
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

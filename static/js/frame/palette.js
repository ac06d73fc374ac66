// Ctrl-K: jump to a page or a run by name.
/** @param {HTMLDialogElement} dialog */
export function mount(dialog) {
  const input = /** @type {HTMLInputElement} */ (dialog.querySelector("input"));
  const list = /** @type {HTMLElement} */ (dialog.querySelector("ul"));
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
        const line = document.createElement("li");
        line.id = `palette-${index}`;
        line.setAttribute("role", "option");
        line.dataset.url = item.url;
        const words = document.createElement("span");
        words.className = "clip";
        words.textContent = item.label;
        const kind = document.createElement("span");
        kind.className = "push";
        kind.textContent = item.kind;
        line.append(words, kind);
        return line;
      }),
    );
    if (!items.length) {
      const nothing = document.createElement("li");
      nothing.className = "nothing";
      nothing.textContent = "Nothing of that name.";
      list.append(nothing);
    }
    select(0);
  }
  /** @returns {HTMLElement[]} */
  function options() {
    return /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=option]")]);
  }
  /** @param {number} index */
  function select(index) {
    const all = options();
    all.forEach((line, at) => line.setAttribute("aria-selected", String(at === index)));
    all[index]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", all[index]?.id ?? "");
  }
  /** @param {HTMLElement | null | undefined} line */
  function go(line) {
    if (line) location.assign(line.dataset.url ?? "");
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const all = options();
    const at = all.findIndex((line) => line.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") select((at + 1) % all.length);
    else if (event.key === "ArrowUp") select((at - 1 + all.length) % all.length);
    else if (event.key === "Enter") go(all[at]);
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

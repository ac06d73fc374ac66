// Keys of every page: `?` shows them, `/` goes to the page's filter, `g r` and its like go to pages, and the key in a
// button's `data-hotkey` presses it.
export function startKeys() {
  let isGoing = 0;
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-open-keys]")) showKeys();
  });
  document.addEventListener("keydown", (event) => {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      isTyping(event.target) ||
      document.querySelector("dialog[open]")
    )
      return;
    if (isGoing && Date.now() - isGoing < 1200) {
      isGoing = 0;
      /** @type {HTMLAnchorElement | null} */
      const link = document.querySelector(`[data-keys="g ${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        location.assign(link.href);
      }
      return;
    }
    if (event.key === "g") isGoing = Date.now();
    if (event.key === "?") showKeys();
    /** @type {HTMLButtonElement | null} */ // it asks before it acts
    const button = document.querySelector(`[data-hotkey="${CSS.escape(event.key)}"]`);
    if (button) {
      event.preventDefault();
      button.click();
    }
    if (event.key === "/") {
      /** @type {HTMLInputElement | null} */
      const field = document.querySelector("[data-filter-key]");
      if (field) {
        event.preventDefault();
        field.focus();
        field.select();
      }
    }
  });
}

// Every key is listed; those of what this page has come first.
function showKeys() {
  const dialog = /** @type {HTMLDialogElement | null} */ (document.getElementById("keys"));
  /** @type {NodeListOf<HTMLElement> | undefined} */
  const parts = dialog?.querySelectorAll("[data-keys-of]");
  /** @param {HTMLElement} part */
  const isHere = ({ dataset }) =>
    (dataset.keysOf ?? "").split(" ").some((name) => document.querySelector(`[data-module~="${name}"]`));
  dialog?.querySelector(".keys-parts")?.prepend(...[...(parts ?? [])].filter(isHere));
  dialog?.showModal();
}

/** @param {EventTarget | null} element */
function isTyping(element) {
  const fields = "input:not([type=checkbox]):not([type=range]), textarea, select, [contenteditable]";
  return element instanceof Element && element.matches(fields);
}

// Short sentences about what was just done, with Undo where it can be taken back.
import { make } from "../shared/dom.js";

const SHOWN_MS = 7000;
/** @type {HTMLElement | null} */
let host = null;

/** @param {HTMLElement} element */
export function mount(element) {
  host = element;
  for (const line of /** @type {HTMLElement[]} */ ([...element.children])) {
    line.remove();
    toast(line.textContent, { undo: line.dataset.undo });
  }
  return () => void (host = null);
}

// undo: what takes it back, or the address that does when it is posted to.
/**
 * @param {string | null | undefined} sentence
 * @param {{undo?: string | (() => void), isProblem?: boolean}} [options]
 */
export function toast(sentence, { undo = "", isProblem = false } = {}) {
  if (!host || !sentence) return;
  const template = /** @type {HTMLTemplateElement} */ (document.getElementById("toast-template"));
  const line = /** @type {HTMLElement} */ (template.content.firstElementChild?.cloneNode(true));
  /** @type {HTMLElement} */ (line.querySelector("p")).textContent = sentence;
  line.classList.toggle("is-red", isProblem);
  const [undoButton, close] = line.querySelectorAll("button");
  if (undo) {
    undoButton.hidden = false;
    undoButton.addEventListener("click", () => {
      line.remove();
      if (typeof undo === "string") postTo(undo);
      else undo();
    });
  }
  close.addEventListener("click", () => line.remove());
  host.append(line);
  while (host.children.length > 4) host.firstElementChild?.remove();
  let timer = setTimeout(() => line.remove(), SHOWN_MS);
  line.addEventListener("pointerenter", () => clearTimeout(timer));
  line.addEventListener("pointerleave", () => (timer = setTimeout(() => line.remove(), SHOWN_MS)));
}

// By a form that acts (forms.js), which imports this module.
/** @param {string} url */
function postTo(url) {
  const form = make("form", { action: url, method: "post" });
  form.dataset.act = "";
  document.body.append(form);
  form.requestSubmit();
  form.remove();
}

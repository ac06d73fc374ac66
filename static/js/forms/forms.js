// Forms that do something (`data-act`): confirms where the form demands it, posts, shows what happened, refreshes the
// page's parts.

import { toast } from "../frame/toasts.js";
import { refetchAll } from "../live/fragment.js";
import { around } from "../shared/dom.js";

export function startForms() {
  for (const zone of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("[data-own-zone]"))) {
    zone.value ||= Intl.DateTimeFormat().resolvedOptions().timeZone;
  }
  // Some are sent as soon as their choice changes; their button is for pages without scripts.
  document.addEventListener("change", (event) => {
    /** @type {HTMLFormElement | null} */ (around(event, "[data-autosubmit]"))?.requestSubmit();
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || form.dataset.act === undefined) return;
    event.preventDefault();
    const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
    const asks = button?.dataset.confirm ?? form.dataset.confirm;
    const words = button?.dataset.words ?? form.dataset.words ?? "";
    if (asks && !(await confirm(asks, words, button?.textContent?.trim() || "Yes"))) return;
    const body = new FormData(form, button);
    button?.setAttribute("aria-busy", "true");
    const done = await post(button?.hasAttribute("formaction") ? button.formAction : form.action, body);
    if (done) form.dispatchEvent(new CustomEvent("acted", { detail: button }));
    button?.removeAttribute("aria-busy");
  });
}

// Posts and shows the answer's sentence; resolves to the answer, or null when it was refused.
/** @param {string} url @param {FormData} [body] */
export async function post(url, body = new FormData()) {
  let answer;
  try {
    const token = document.querySelector("meta[name=csrf-token]")?.getAttribute("content") ?? "";
    answer = await fetch(url, { method: "POST", body, headers: { "X-CSRFToken": token, "X-Requested-With": "fetch" } });
  } catch {
    toast("The server did not answer. Nothing was changed as far as this page knows.", { isProblem: true });
    return null;
  }
  const words = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    toast(words.sentence ?? `The server answered ${answer.status}.`, { isProblem: true });
    return null;
  }
  if (words.to) location.assign(words.to);
  else toast(words.sentence, { undo: words.undo });
  refetchAll();
  return words;
}

// Asks by naming the thing ("Stop run hello-gpt?"); resolves to true or false.
/** @param {string} question @param {string} words @param {string} yes @returns {Promise<boolean>} */
export function confirm(question, words, yes) {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("confirm"));
  write("confirm-title", question);
  write("confirm-words", words).hidden = !words;
  write("confirm-yes", yes);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** @param {string} id @param {string} words */
function write(id, words) {
  const element = /** @type {HTMLElement} */ (document.getElementById(id));
  element.textContent = words;
  return element;
}

// Whether somebody changed the control before a script listened to it.
/** @param {Element} control */
export function isTouched(control) {
  if (control instanceof HTMLSelectElement) {
    const first = [...control.options].findIndex((one) => one.defaultSelected);
    return control.selectedIndex !== Math.max(0, first);
  }
  const { type, checked, defaultChecked, value, defaultValue } = /** @type {HTMLInputElement} */ (control);
  if (type === "radio") return checked && !defaultChecked;
  if (type === "checkbox") return checked !== defaultChecked;
  return control.matches("input, textarea") && !["file", "hidden"].includes(type) && value !== defaultValue;
}

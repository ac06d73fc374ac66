// Forms inside this element are sent in the background; the answer, a part of the page, takes the place of its content.

import { writeClocks } from "../frame/ages.js";
import { toast } from "../frame/toasts.js";
import { refetchAll } from "../live/fragment.js";
import { mountAll, sweep } from "../shared/modules.js";

/** @param {HTMLElement} element */
export function mount(element) {
  element.addEventListener("submit", async (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if (form.dataset.act !== undefined) return;
    const html = await send(event, form, element.dataset.swap ?? "");
    if (html === null) return;
    element.innerHTML = html;
    writeClocks(element);
    sweep();
    mountAll(element);
    /** @type {HTMLElement | null} */ (element.querySelector("[aria-invalid], [data-focus]"))?.focus();
    refetchAll();
  });
}

// Posts and resolves to the named part of the answer's page, with problems beside its fields; null when it was refused.
/** @param {SubmitEvent} event @param {HTMLFormElement} form @param {string} fragment */
export async function send(event, form, fragment) {
  event.preventDefault();
  event.submitter?.setAttribute("aria-busy", "true");
  const html = await answerOf(`${form.action}?fragment=${fragment}`, new FormData(form, event.submitter));
  event.submitter?.removeAttribute("aria-busy");
  return html;
}

/** @param {string} url @param {FormData} body @returns {Promise<string | null>} */
async function answerOf(url, body) {
  try {
    const answer = await fetch(url, { method: "POST", body, headers: { "X-Requested-With": "fetch" } });
    if (answer.ok || answer.status === 422) return await answer.text();
    const words = await answer.json().catch(() => ({}));
    toast(words.sentence ?? `The server answered ${answer.status}.`, { isProblem: true });
  } catch {
    toast("The server did not answer. Nothing was changed as far as this page knows.", { isProblem: true });
  }
  return null;
}

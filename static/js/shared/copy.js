// Copies the text of a button's `data-copy`.
import { toast } from "../frame/toasts.js";

/** @param {HTMLElement} element */
export function mount(element) {
  /** @type {HTMLElement | null} */
  const button = element.matches("[data-copy]") ? element : element.querySelector("[data-copy]");
  button?.addEventListener("click", () => copyText(button.dataset.copy ?? ""));
}

// Says the sentence, or what to do instead.
/** @param {string | URL} text @param {string} [sentence] @param {string} [instead] */
export async function copyText(text, sentence = "Copied.", instead = "select the text instead") {
  try {
    await navigator.clipboard.writeText(String(text));
    toast(sentence);
  } catch {
    toast(`This browser does not let the page copy; ${instead}.`, { isProblem: true });
  }
}

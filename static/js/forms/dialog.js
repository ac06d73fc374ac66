// A form whose answer opens as a dialog (`data-fragment` names the part of its page); without scripts it is a page.
import { refetchAll } from "../live/fragment.js";
import { make } from "../shared/dom.js";
import { mountAll, sweep } from "../shared/modules.js";
import { send } from "./swap.js";

/** @param {HTMLFormElement} form */
export function mount(form) {
  form.addEventListener("submit", async (event) => {
    const html = await send(event, form, form.dataset.fragment ?? "");
    if (html === null) return;
    const dialog = make("dialog", { className: "is-wide", innerHTML: html });
    dialog.setAttribute("aria-labelledby", dialog.querySelector("h2")?.id ?? "");
    dialog.addEventListener("click", ({ target }) => {
      if (target instanceof Element && target.closest("[data-close]")) dialog.close();
    });
    // A form in it that does something has its say in a toast; one with a bad value keeps it open.
    dialog.addEventListener("submit", ({ target }) => {
      if (target instanceof HTMLElement && target.dataset.act !== undefined) dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      sweep();
      refetchAll();
    });
    document.body.append(dialog);
    mountAll(dialog);
    dialog.showModal();
  });
}

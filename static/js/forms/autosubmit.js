// A form that is sent as soon as its choice changes; its button is for pages without scripts.
/** @param {HTMLFormElement} form */
export function mount(form) {
  for (const button of form.querySelectorAll("[data-for-no-script]")) button.setAttribute("hidden", "");
  form.addEventListener("change", () => form.requestSubmit());
}

// The form of a report: what it would look like is fetched anew after a pause in typing.
import { isTouched } from "../forms/forms.js";
import { patch } from "../live/patch.js";
import { need } from "../shared/dom.js";

const PAUSE_MS = 400;

/** @param {HTMLFormElement} form */
export function mount(form) {
  const drawn = need(form, "[data-drawn]");
  let timer = 0;
  let number = 0;

  async function refresh() {
    const mine = ++number;
    try {
      const headers = { "X-Requested-With": "fetch" };
      const answer = await fetch(form.dataset.preview ?? "", { method: "POST", body: new FormData(form), headers });
      if (answer.ok && mine === number) patch(drawn, await answer.text());
    } catch {
      // The server is away; the lamp shows it, and the next key repeats the request.
    }
  }
  function onInput() {
    clearTimeout(timer);
    timer = setTimeout(refresh, PAUSE_MS);
  }
  form.addEventListener("input", onInput);
  if ([...form.elements].some(isTouched)) onInput(); // typed before this script ran, or restored by the browser
  return () => clearTimeout(timer);
}

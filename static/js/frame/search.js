// A filter box of a table: what fits comes while one types. The form and all that it filters (`data-search`, the id of
// what holds both) are taken from the page of that address, which a reload, a link and Back lead to as well.

import { patch } from "../live/patch.js";
import { mountAll, sweep } from "../shared/modules.js";

const TYPING_MS = 200;
let number = 0; // of the newest request
let asked = ""; // by it, until it is shown

// The address of what will be shown: what one changes next is a change of that.
export const newest = () => asked || location.href;

/** @param {HTMLFormElement} form */
export function mount(form) {
  const place = /** @type {HTMLElement} */ (document.getElementById(form.dataset.search ?? ""));
  let timer = 0;

  function address() {
    const fields = [...new FormData(form)].map(([name, value]) => [name, String(value)]);
    const query = new URLSearchParams(fields.filter(([, value]) => value !== ""));
    return `${location.pathname}${query.size ? `?${query}` : ""}`;
  }
  function find() {
    clearTimeout(timer);
    show(place, address());
  }
  function onInput() {
    clearTimeout(timer);
    timer = setTimeout(find, TYPING_MS);
  }
  /** @param {SubmitEvent} event */
  function onSubmit(event) {
    event.preventDefault();
    find();
  }
  form.addEventListener("input", onInput);
  form.addEventListener("submit", onSubmit);
  return () => clearTimeout(timer);
}

// Shows the page of that address in the place of the one at hand, of which `place` alone changes; "shown" is dispatched
// to it then.
/** @param {HTMLElement} place @param {string} url @param {{isNew?: boolean, isBack?: boolean}} [how] */
export async function show(place, url, { isNew = false, isBack = false } = {}) {
  const mine = (number += 1);
  asked = url;
  place.setAttribute("aria-busy", "true");
  const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
  const html = answer?.ok ? await answer.text().catch(() => null) : null;
  if (mine !== number) return;
  asked = "";
  if (!place.isConnected) return;
  place.removeAttribute("aria-busy");
  if (html === null) return; // the lamp says that the server is away, and the next key asks again
  const found = new DOMParser().parseFromString(html, "text/html").getElementById(place.id);
  if (!found) return location.assign(url);
  if (!isBack) history[isNew ? "pushState" : "replaceState"](history.state, "", url);
  // A text that cannot be read, as it is while one types: what was found before stays.
  const refused = found.querySelector("[data-refused]")?.closest("form");
  const before = refused && place.querySelector(`form[data-search="${place.id}"]`);
  if (before) return patch(before, refused.innerHTML);
  place.className = found.className;
  patch(place, found.innerHTML);
  sweep();
  mountAll(place);
  place.dispatchEvent(new CustomEvent("shown"));
}

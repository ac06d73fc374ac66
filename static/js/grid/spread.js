// How a column's values are spread, in its menu: the range that one brushes, or the text that one picks, is a filter.

import { newest } from "../frame/search.js";
import { around, make, need } from "../shared/dom.js";
import { change, changed } from "./address.js";

const AGAIN_MS = 1000;

/** @param {HTMLElement} menu @param {HTMLElement} place */
export function startSpread(menu, place) {
  const shown = need(menu, "[data-spread]");
  let field = ""; // as a filter has it
  let rest = ""; // of the filter, without the range of this field
  let again = 0;

  /** @param {string} name @param {boolean} [isAgain] */
  async function draw(name, isAgain = false) {
    clearTimeout(again);
    const mine = (field = /[\s"'()<>=!~,]/.test(name) ? `"${name}"` : name);
    const whole = new URL(newest(), location.href).searchParams.get("filter") ?? "";
    const own = mine.replace(/\W/g, "\\$&");
    rest = whole.replace(new RegExp(`(^| and )${own} >= \\S+ and ${own} <= \\S+$`), "");
    if (!isAgain) shown.replaceChildren();
    const url = changed(newest(), { fragment: "spread", of: name, filter: rest });
    const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    const text = (await answer?.text().catch(() => "")) ?? "";
    if (mine !== field || !menu.matches(":popover-open")) return;
    if (answer?.ok) shown.innerHTML = text;
    else shown.replaceChildren(make("p", { className: "xs muted" }, sentenceOf(text)));
    if (!answer || answer.status === 202) again = setTimeout(() => draw(name, true), AGAIN_MS);
  }
  /** @param {string} words */
  function filter(words) {
    menu.hidePopover();
    const before = /\bor\b/i.test(rest) && !/^\([^()]*\)$/.test(rest) ? `(${rest})` : rest;
    change(place, { filter: before ? `${before} and ${words}` : words });
  }
  function apply() {
    const [low, high] = [...shown.querySelectorAll("input")].map((one) => one.value.trim());
    filter(`${field} >= ${low} and ${field} <= ${high}`);
  }
  /** @param {PointerEvent} event */
  function onDown(event) {
    const drawing = /** @type {SVGElement | null} */ (/** @type {Element} */ (event.target).closest("svg"));
    if (!drawing || event.button) return;
    const bars = [...drawing.querySelectorAll("rect")];
    const box = drawing.getBoundingClientRect();
    const at = (/** @type {number} */ x) =>
      Math.min(bars.length - 1, Math.max(0, Math.floor(((x - box.left) / box.width) * bars.length)));
    const ends = shown.querySelectorAll("input");
    const start = at(event.clientX);
    /** @param {PointerEvent} moved */
    function mark({ clientX }) {
      const [low, high] = [start, at(clientX)].sort((one, other) => one - other);
      bars.forEach((bar, number) => void bar.classList.toggle("is-out", number < low || number > high));
      ends[0].value = bars[low].dataset.low ?? "";
      ends[1].value = bars[high].dataset.high ?? "";
    }
    event.preventDefault();
    mark(event);
    drawing.setPointerCapture(event.pointerId);
    drawing.onpointermove = mark;
    drawing.onlostpointercapture = () => apply();
  }
  shown.addEventListener("pointerdown", onDown);
  // The table stands in a form of its own, which Enter is not to send.
  shown.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
    event.preventDefault();
    apply();
  });
  shown.addEventListener("click", (event) => {
    const text = around(event, "[data-text]")?.dataset.text;
    if (around(event, "[data-only]")) apply();
    if (text !== undefined) filter(`${field} = "${text.replace(/["\\]/g, "\\$&")}"`);
  });
  return draw;
}

// What the server says of a request that it refused.
/** @param {string} text */
function sentenceOf(text) {
  try {
    return JSON.parse(text).sentence;
  } catch {
    return "How the values are spread could not be read.";
  }
}

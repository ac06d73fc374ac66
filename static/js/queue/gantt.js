// The drawing of a queue over time: zoom and shift by buttons, keys and the wheel with Ctrl. It says exactly what the
// bar is that one points at or that has the focus.
import { mount as mountParts } from "../launch/mesh.js";
import { around, need } from "../shared/dom.js";
import { duration } from "../shared/format.js";

const SIDE_S = 6 * 3600; // so long before now is drawn, and so long after it
const CLOSEST = 300 / (2 * SIDE_S); // the smallest part of the time that fills the drawing
const TICKS_S = [60, 300, 600, 900, 1800, 3600, 7200];
const WIDTH = 90; // pixels between two ticks, at least
/** @type {Record<string, string>} */
const KEYS = { "+": "in", "=": "in", "-": "out", 0: "all", ArrowLeft: "earlier", ArrowRight: "later" };

/** @param {HTMLElement} element */
export function mount(element) {
  let from = 0; // of the whole time
  let part = 1;

  /** Shows that part of the time, as far as there is one. @param {number} start @param {number} size */
  function show(start, size) {
    part = Math.min(1, Math.max(CLOSEST, size));
    from = Math.min(1 - part, Math.max(0, start));
    draw();
  }
  function draw() {
    const view = need(element, ".gantt-view");
    set(view, "x", `${((-100 * from) / part).toFixed(2)}%`);
    set(view, "width", `${(100 / part).toFixed(2)}%`);
    const width = need(element, ".gantt-time").getBoundingClientRect().width;
    const least = (WIDTH * part * 2 * SIDE_S) / Math.max(width, WIDTH);
    const step = TICKS_S.find((one) => one >= least) ?? TICKS_S[TICKS_S.length - 1];
    const ticks = [];
    for (
      let at = Math.ceil((from * 2 - 1) * (SIDE_S / step)) * step;
      at <= ((from + part) * 2 - 1) * SIDE_S;
      at += step
    )
      if (Math.abs(((at / SIDE_S + 1) / 2 - from) / part - 0.5) * width < width / 2 - WIDTH / 3) ticks.push(tick(at));
    const host = need(element, ".gantt-ticks");
    if (host.innerHTML !== ticks.join("")) host.innerHTML = ticks.join("");
    changes.takeRecords();
  }
  /** @param {string} verb @param {number} [at] the place that stays, as part of what is in view */
  function act(verb, at = 0.5) {
    const size = verb === "in" ? part / 1.5 : verb === "out" ? part * 1.5 : part;
    if (verb === "all") show(0, 1);
    else if (verb === "earlier" || verb === "later") show(from + (verb === "later" ? 0.25 : -0.25) * part, part);
    else show(from + at * (part - Math.min(1, Math.max(CLOSEST, size))), size);
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const verb = KEYS[event.key];
    if (!verb || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow") && !event.shiftKey) return; // which goes to another bar
    event.preventDefault();
    event.stopPropagation();
    act(verb);
  }
  /** @param {WheelEvent} event */
  function onWheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = need(element, ".gantt-time").getBoundingClientRect();
    act(event.deltaY < 0 ? "in" : "out", (event.clientX - box.left) / box.width);
  }
  // A bar that has the focus comes into view.
  /** @param {Event} event */
  function onFocus(event) {
    const bar = around(event, ".gantt-bar")?.getBoundingClientRect();
    if (!bar) return;
    const box = need(element, ".gantt-time").getBoundingClientRect();
    const middle = (bar.left + bar.right) / 2;
    if (bar.right < box.left || bar.left > box.right) show(from + ((middle - box.left) / box.width - 0.5) * part, part);
  }

  const changes = new MutationObserver(draw); // the drawing is patched while one looks at it
  changes.observe(need(element, ".gantt-time"), { subtree: true, childList: true, attributeFilter: ["x", "width"] });
  const unmount = mountParts(element, (one) => locally(one.querySelector("title")?.textContent ?? ""));
  const resized = new ResizeObserver(draw);
  resized.observe(need(element, ".gantt"));
  element.addEventListener("click", (event) => {
    const verb = around(event, "[data-zoom]")?.dataset.zoom;
    if (verb) act(verb);
  });
  need(element, ".gantt").addEventListener("keydown", onKey, { capture: true });
  need(element, ".gantt-time").addEventListener("wheel", /** @type {EventListener} */ (onWheel), { passive: false });
  element.addEventListener("focusin", onFocus);
  return () => {
    changes.disconnect();
    resized.disconnect();
    unmount();
  };
}

/** @param {number} at seconds from now */
function tick(at) {
  const words = at ? (at < 0 ? `−${duration(-at)}` : `in ${duration(at)}`) : "now";
  const x = `${50 + (50 * at) / SIDE_S}%`;
  const line = at ? `<line x1="${x}" x2="${x}" y1="18" y2="100%"></line>` : "";
  return `${line}<text x="${x}" y="12">${words}</text>`;
}

/** Times in words, as the reader's clock shows them. @param {string} words */
function locally(words) {
  return words.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (_, day, time) => {
    const at = new Date(`${day}T${time}Z`);
    const clock = at.toLocaleTimeString("en-GB");
    if (at.toDateString() === new Date().toDateString()) return clock;
    return `${at.toLocaleDateString("en-US", { month: "short", day: "numeric" })}, ${clock}`;
  });
}

/** @param {Element} element @param {string} name @param {string} value */
function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// The page's own stream, and the lamp that says how it is.
import { ended } from "./session.js";
import { Stream } from "./stream.js";

/** @type {Record<string, string>} */
const WORDS = {
  connecting: "connecting",
  live: "live",
  paused: "paused",
  off: "not allowed",
  "signed-out": "signed out",
};
export const own = new Stream(""); // known before the lamp is mounted, so that every module may listen

/** @param {string} type @param {import("./stream.js").Listener} listener */
export const on = (type, listener) => own.on(type, listener);

/** @param {HTMLElement} lamp */
export function mount(lamp) {
  if (!lamp.dataset.socket) return;
  own.path = lamp.dataset.socket;
  own.onState = (state, seconds) => {
    const words = state === "reconnecting" ? `reconnecting in ${seconds} s` : WORDS[state];
    if (!words) return; // the page is left
    if (lamp.dataset.state !== state) lamp.dataset.state = state;
    if (lamp.textContent !== words) lamp.textContent = words;
  };
  const onClick = () => own.state === "signed-out" && ended();
  lamp.addEventListener("click", onClick);
  own.open();
  return () => {
    lamp.removeEventListener("click", onClick);
    own.close();
  };
}

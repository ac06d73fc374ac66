// The banner about the server itself. It is drawn with the page, and the pings of the page's stream keep it true.
import { make } from "../shared/dom.js";
import { on } from "./live.js";

/** @param {HTMLElement} banner */
export function mount(banner) {
  return on("ping", ({ server }) => {
    if (server) show(banner, server);
  });
}

/** @param {HTMLElement} banner @param {string[]} sentences */
export function show(banner, sentences) {
  const shown = [...banner.children].map((line) => line.textContent);
  if (shown.join("\n") === sentences.join("\n")) return;
  banner.replaceChildren(
    ...sentences.map((sentence) => make("p", { className: "note is-amber", textContent: sentence })),
  );
}

// The terminal's colours from the page's own, for the theme of the moment.
import { colour, faded } from "../shared/colours.js";

/** @type {Record<string, string>} */
const TOKENS = {
  black: "terminal-black",
  red: "red",
  green: "green",
  yellow: "amber",
  blue: "blue",
  magenta: "violet",
  cyan: "terminal-cyan",
  white: "terminal-white",
};

export function theme() {
  const text = colour("text");
  /** @type {Record<string, string>} */
  const found = {
    background: colour("surface"),
    foreground: text,
    cursor: text,
    cursorAccent: colour("surface"),
    selectionBackground: faded(colour("accent"), 0.35),
    scrollbarSliderBackground: faded(text, 0.2),
    scrollbarSliderHoverBackground: faded(text, 0.35),
    scrollbarSliderActiveBackground: faded(text, 0.5),
  };
  for (const [name, token] of Object.entries(TOKENS)) {
    found[name] = colour(token);
    found[`bright${name[0].toUpperCase()}${name.slice(1)}`] = colour(token);
  }
  found.brightBlack = colour("faint");
  return found;
}

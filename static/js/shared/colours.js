// Colours of the tokens as a canvas understands them, for the theme of the moment.
/** @type {Map<string, string>} */
const known = new Map();
addEventListener("themechange", () => known.clear());

/** @param {string} token @returns {string} */
export function colour(token) {
  if (!known.has(token)) {
    const probe = document.createElement("i");
    probe.style.color = `var(--${token})`;
    document.body.append(probe);
    known.set(token, getComputedStyle(probe).color);
    probe.remove();
  }
  return known.get(token) ?? "";
}

/** @param {number} index */
export const seriesToken = (index) => `series-${(index % 10) + 1}`;

/** @param {number} index */
export const seriesColour = (index) => colour(seriesToken(index));

/** The colour with an opacity from 0 to 1. @param {string} text @param {number} opacity */
export function faded(text, opacity) {
  const [red, green, blue] = text.match(/[\d.]+/g) ?? [0, 0, 0];
  return `rgb(${red} ${green} ${blue} / ${opacity})`;
}

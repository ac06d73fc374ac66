// Colours of the tokens as a canvas understands them, for the theme of the moment.
const known = new Map();
addEventListener("themechange", () => known.clear());

export function colour(token) {
  if (!known.has(token)) {
    const probe = document.createElement("i");
    probe.style.color = `var(--${token})`;
    document.body.append(probe);
    known.set(token, getComputedStyle(probe).color);
    probe.remove();
  }
  return known.get(token);
}

export function seriesToken(index) {
  return `series-${(index % 10) + 1}`;
}

export function seriesColour(index) {
  return colour(seriesToken(index));
}

// The colour with an opacity from 0 to 1.
export function faded(text, opacity) {
  const [red, green, blue] = text.match(/[\d.]+/g);
  return `rgb(${red} ${green} ${blue} / ${opacity})`;
}

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

// A colour per label set, counted among those of the same kind: rank 0 is the first colour in every chart and in the logs.
export function indexed(names) {
  const kinds = new Map();
  for (const known of names.values()) {
    for (const [key, labels] of known) {
      const kind = Object.keys(labels).sort().join();
      if (!kinds.has(kind)) kinds.set(kind, new Set());
      kinds.get(kind).add(key);
    }
  }
  const { compare } = new Intl.Collator("en", { numeric: true });
  return new Map([...kinds.values()].flatMap((keys) => [...keys].sort(compare).map((key, at) => [key, at])));
}

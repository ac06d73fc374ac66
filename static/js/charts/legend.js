// The lines of a chart by their labels, each with its colour and its value.
import { seriesToken } from "../colours.js";

const LIMIT = 32;

// entries: [{colour: index, labels, value: text, extent: text}]
export function showLegend(list, entries) {
  const shown = entries.slice(0, LIMIT);
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(({ colour, labels, value, extent }, at) => {
    const item = list.children[at] ?? list.appendChild(empty());
    item.firstChild.className = `dot ${seriesToken(colour)}`;
    item.children[1].textContent = labelOf(labels);
    item.children[2].textContent = value;
    item.title = item.children[3].textContent = extent;
  });
}

export function labelOf(labels) {
  return Object.entries(labels).map(([name, value]) => (name === "node" ? value : `${name} ${value}`)).join(" ") || "all";
}

function empty() {
  const item = document.createElement("li");
  item.append(document.createElement("i"), document.createElement("span"), document.createElement("b"), document.createElement("small"));
  return item;
}

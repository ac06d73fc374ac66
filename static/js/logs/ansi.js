// A log line with terminal colours, as text nodes and spans: no HTML is ever read from it.
const ESCAPES = /\u001b(?:\[([0-9;:?]*)([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])/g;
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
const COLOURS = ["", "red", "green", "amber", "blue", "violet", "blue", ""];

export function render(text) {
  const nodes = [];
  let style = { colour: "", isBold: false };
  let from = 0;
  const push = (piece) => {
    const clean = piece.replace(CONTROLS, "");
    if (!clean) return;
    if (!style.colour && !style.isBold) return nodes.push(document.createTextNode(clean));
    const span = document.createElement("span");
    span.className = [style.colour && `ansi-${style.colour}`, style.isBold && "strong"].filter(Boolean).join(" ");
    span.textContent = clean;
    nodes.push(span);
  };
  // What a progress bar wrote over itself: only the last version is worth a line.
  const shown = text.slice(text.replace(/\r+$/, "").lastIndexOf("\r") + 1);
  for (const match of shown.matchAll(ESCAPES)) {
    push(shown.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") style = restyle(style, match[1]);
  }
  push(shown.slice(from));
  return nodes;
}

function restyle(style, codes) {
  const next = { ...style };
  for (const code of (codes || "0").split(/[;:]/).map(Number)) {
    if (code === 0) Object.assign(next, { colour: "", isBold: false });
    else if (code === 1) next.isBold = true;
    else if (code === 22) next.isBold = false;
    else if (code === 39) next.colour = "";
    else if (code >= 30 && code <= 37) next.colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) next.colour = COLOURS[code - 90];
    else if (code === 38 || code === 48) break; // extended colours are not drawn
  }
  return next;
}

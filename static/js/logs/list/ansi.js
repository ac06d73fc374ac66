// A log line as a terminal shows it: pieces of text with a style each. What is no text and no colour is left out.
const SEQUENCES = [
  /(?:\u001b\[|\u009b)([0-9;:?<=>]*)[ -/]*([@-~])/, // colours, and moves of the cursor
  /\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)/, // titles, links and other strings
  /\u001b[ -/]*[0-~]?/,
  /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/,
];
const TOKEN = new RegExp(SEQUENCES.map(({ source }) => source).join("|"), "g");
const MOVES = /[\r\b]|\u001b\[[012]?K/;
const NONE = { fg: null, bg: null };
const FLAGS = { 1: "isBold", 2: "isDim", 3: "isItalic", 4: "isUnderlined", 7: "isInverse", 9: "isStruck" };
const ENDS = { 21: "isBold", 22: "isBold isDim", 23: "isItalic", 24: "isUnderlined", 27: "isInverse", 29: "isStruck" };

// Returns [{text, style, from}]; `from` is the piece's place in the text as it came.
export function pieces(text) {
  const isMoving = MOVES.test(text); // something is written over: then each character has a place of its own
  const cells = [];
  let at = 0;
  let style = NONE;
  let from = 0;
  function put(run, start) {
    let place = start;
    for (const one of isMoving ? run : [run]) {
      if (one) cells[at++] = { text: one, style, from: place };
      place += one.length;
    }
  }
  for (const token of text.matchAll(TOKEN)) {
    put(text.slice(from, token.index), from);
    from = token.index + token[0].length;
    if (token[0] === "\r") at = 0;
    else if (token[0] === "\b") at = Math.max(0, at - 1);
    else if (token[2] === "m") style = restyled(style, token[1]);
    else if (token[2] === "K") erase(cells, at, token[1]);
  }
  put(text.slice(from), from);
  return joined(cells);
}

// What is read, copied and searched with the eye.
export function plain(text) {
  return pieces(text)
    .map((piece) => piece.text)
    .join("");
}

function erase(cells, at, what) {
  if (!what || what === "0") cells.length = Math.min(cells.length, at);
  else if (what === "1") cells.fill(undefined, 0, at);
  else if (what === "2") cells.length = 0;
}

function joined(cells) {
  const found = [];
  let last = null;
  for (let at = 0; at < cells.length; at += 1) {
    const cell = cells[at] ?? { text: " ", style: NONE, from: -1 };
    if (last && last.style === cell.style && last.from + last.text.length === cell.from) last.text += cell.text;
    else found.push((last = { ...cell }));
  }
  return found;
}

function restyled(style, codes) {
  if (/[?<=>]/.test(codes)) return style; // something else than a style
  let next = { ...style };
  const list = (codes || "0").split(";");
  while (list.length) {
    const [code, ...more] = list.shift().split(":").map(Number);
    if (code === 0) next = NONE;
    else if (code === 38 || code === 48)
      next = { ...next, [code === 38 ? "fg" : "bg"]: extended(more.length ? more : list) };
    else if (FLAGS[code]) next = { ...next, [FLAGS[code]]: more[0] !== 0 };
    else if (ENDS[code]) next = { ...next, ...Object.fromEntries(ENDS[code].split(" ").map((flag) => [flag, false])) };
    else if (code === 39) next = { ...next, fg: null };
    else if (code === 49) next = { ...next, bg: null };
    else next = { ...next, ...basic(code) };
  }
  return next;
}

function basic(code) {
  if (code >= 30 && code <= 37) return { fg: code - 30 };
  if (code >= 90 && code <= 97) return { fg: code - 82 };
  if (code >= 40 && code <= 47) return { bg: code - 40 };
  if (code >= 100 && code <= 107) return { bg: code - 92 };
  return {};
}

// 5;n is one of 256, 2;r;g;b any colour (2::r:g:b too). Takes what it reads from the list; null is the default colour.
function extended(list) {
  const kind = Number(list.shift());
  if (kind === 5) return byte(list.shift());
  if (kind !== 2) return null;
  if (list.length > 3 && typeof list[0] === "number") list.shift(); // the colour space of the form with colons
  const channels = [byte(list.shift()), byte(list.shift()), byte(list.shift())];
  return channels.includes(null) ? null : channels;
}

function byte(text) {
  const value = Number(text || 0);
  return Number.isInteger(value) && value >= 0 && value <= 255 ? value : null;
}

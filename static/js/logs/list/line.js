// One line of the log as a row of the list: time, rank, level, text. All text goes in as text.

import { seriesToken } from "../../shared/colours.js";
import { make } from "../../shared/dom.js";
import { pieces } from "./ansi.js";
import { look } from "./paint.js";

const LEVELS = { error: "E", warning: "W", info: "I", debug: "D" };

// {line or undefined: it is on its way, index, spans: [[from, to]] to mark, clock: "relative" | "wall" | "off", start:
// Unix s}
export function rowOf({ line, index, spans, clock, start }) {
  const row = make("div", { id: `log-line-${index}`, className: "log-line", role: "row" });
  row.setAttribute("aria-rowindex", index + 1);
  if (!line) {
    row.classList.add("is-coming");
    row.append(cell("text", ""));
    return row;
  }
  if (LEVELS[line.level]) row.classList.add(`is-${line.level}`);
  if (line.stream === "stderr") row.classList.add("is-stderr");
  const level = cell("level", LEVELS[line.level] ?? "", line.level);
  row.append(timeOf(line, clock, start), rankOf(line), level, textOf(line, spans));
  return row;
}

export function clockText(time, clock, start) {
  if (clock === "wall") {
    const at = new Date(time * 1000);
    return `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  }
  const seconds = Math.abs(time - start);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const milliseconds = (Math.floor((seconds % 60) * 1000) / 1000).toFixed(3);
  const rest = `${String(minutes).padStart(hours ? 2 : 1, "0")}:${milliseconds.padStart(6, "0")}`;
  return `${time < start ? "−" : ""}${hours ? `${hours}:` : ""}${rest}`;
}

// Pieces of text, cut where a mark begins or ends: a hit of the search is marked, else the terminal's colours count.
export function words(text, spans = []) {
  return pieces(text).flatMap((piece) =>
    parted(piece, spans).map(([part, isHit]) => (isHit ? make("mark", {}, part) : styled(part, piece.style))),
  );
}

function parted({ text, from }, spans) {
  const found = [];
  let at = from;
  const end = from + text.length;
  for (const [first, last] of from < 0 ? [] : spans) {
    if (last <= at || first >= end) continue;
    if (first > at) found.push([text.slice(at - from, first - from), false]);
    found.push([text.slice(Math.max(at, first) - from, last - from), true]);
    at = Math.min(end, last);
  }
  if (at < end) found.push([text.slice(at - from), false]);
  return found;
}

function styled(text, style) {
  /** @type {{classes: string[], color?: string, background?: string}} */
  const { classes, color, background } = look(style);
  if (!classes.length && !color) return document.createTextNode(text);
  const span = make("span", { className: classes.join(" ") }, text);
  if (color) span.style.color = color;
  if (background) span.style.background = background;
  return span;
}

function timeOf({ time }, clock, start) {
  const title = `${new Date(time * 1000).toISOString()}: copy a link to this line`;
  return cell("time", clock === "off" ? "" : clockText(time, clock, start), title);
}

function rankOf({ rank, stream, attempt }) {
  const title = `${rank >= 0 ? `rank ${rank}` : "the node"}, ${stream}, attempt ${attempt}`;
  const found = cell("rank", rank >= 0 ? String(rank) : "·", title);
  if (rank >= 0) found.classList.add(seriesToken(rank));
  return found;
}

function textOf(line, spans) {
  const found = cell("text", "");
  for (const label of line.labels ?? [])
    found.append(make("span", { className: "log-tag", title: `The line fits the rule ${label}` }, label));
  found.append(...words(line.text, spans));
  if (line.length) {
    // It was cut. Enter on the line does the same as the button.
    const textContent = `show all ${line.length.toLocaleString("en-US")} characters`;
    found.append(make("button", { className: "log-more", type: "button", tabIndex: -1, textContent }));
  }
  return found;
}

function cell(kind, textContent, title = "") {
  return make("span", { className: `log-${kind}`, role: "gridcell", textContent, title: title ?? "" });
}

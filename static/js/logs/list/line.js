// One line of the log as a row of the list: time, rank, level, text. All text goes in as text.

import { seriesToken } from "../../shared/colours.js";
import { pieces } from "./ansi.js";
import { look } from "./paint.js";

const LEVELS = { error: "E", warning: "W", info: "I", debug: "D" };

function rowId(index) {
  return `log-line-${index}`;
}

// {line or undefined: it is on its way, index, spans: [[from, to]] to mark, clock: "relative" | "wall" | "off", start:
// Unix s}
export function rowOf({ line, index, spans, clock, start }) {
  const row = element("div", "log-line", "row");
  row.id = rowId(index);
  row.setAttribute("aria-rowindex", index + 1);
  if (!line) {
    row.classList.add("is-coming");
    row.append(element("span", "log-text", "gridcell"));
    return row;
  }
  if (LEVELS[line.level]) row.classList.add(`is-${line.level}`);
  if (line.stream === "stderr") row.classList.add("is-stderr");
  row.append(timeOf(line, clock, start), rankOf(line), levelOf(line), textOf(line, spans));
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
    parted(piece, spans).map(([part, isHit]) => (isHit ? marked(part) : styled(part, piece.style))),
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

function marked(text) {
  const mark = document.createElement("mark");
  mark.textContent = text;
  return mark;
}

function styled(text, style) {
  /** @type {{classes: string[], color?: string, background?: string}} */
  const { classes, color, background } = look(style);
  if (!classes.length && !color) return document.createTextNode(text);
  const span = element("span", classes.join(" "));
  if (color) span.style.color = color;
  if (background) span.style.background = background;
  span.textContent = text;
  return span;
}

function timeOf({ time }, clock, start) {
  const cell = element("span", "log-time", "gridcell");
  if (clock !== "off") cell.textContent = clockText(time, clock, start);
  cell.title = `${new Date(time * 1000).toISOString()}: copy a link to this line`;
  return cell;
}

function rankOf({ rank, stream, attempt }) {
  const cell = element("span", `log-rank ${rank >= 0 ? seriesToken(rank) : ""}`, "gridcell");
  cell.textContent = rank >= 0 ? rank : "·";
  cell.title = `${rank >= 0 ? `rank ${rank}` : "the node"}, ${stream}, attempt ${attempt}`;
  return cell;
}

function levelOf({ level }) {
  const cell = element("span", "log-level", "gridcell");
  cell.textContent = LEVELS[level] ?? "";
  if (level) cell.title = level;
  return cell;
}

function textOf(line, spans) {
  const cell = element("span", "log-text", "gridcell");
  for (const label of line.labels ?? []) {
    const tag = element("span", "log-tag");
    tag.textContent = label;
    tag.title = `The line fits the rule ${label}`;
    cell.append(tag);
  }
  cell.append(...words(line.text, spans));
  if (line.length) {
    // it was cut
    const more = element("button", "log-more");
    more.type = "button";
    more.tabIndex = -1; // Enter on the line does the same
    more.textContent = `show all ${line.length.toLocaleString("en-US")} characters`;
    cell.append(more);
  }
  return cell;
}

function element(name, classes, role) {
  const made = document.createElement(name);
  if (classes) made.className = classes.trim();
  if (role) made.setAttribute("role", role);
  return made;
}

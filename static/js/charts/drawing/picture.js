// A chart as a picture: its title, its plot as it is on the page, and its legend, on the ground of the theme.
import { colour, seriesColour } from "../../shared/colours.js";
import { make } from "../../shared/dom.js";
import { svgContext } from "./svg.js";

const MARGIN = 16;
const ROW = 18;
const HEAD = 36;
const MOST_ROWS = 24;

// Returns a blob, a PNG or an SVG; null where there is nothing drawn.
export async function picture(card, kind) {
  const { plot, rows, title, axis } = card;
  if (!plot?.frame) return null;
  const scale = devicePixelRatio;
  const { width, height } = plot.frame.canvas;
  const shown = rows.length > 1 ? rows.slice(0, MOST_ROWS) : [];
  const below = shown.length ? (shown.length + 1) * ROW + 8 : 0;
  const canvas = make("canvas", {
    width: width + 2 * MARGIN * scale,
    height: height + (HEAD + MARGIN + below) * scale,
  });
  const ctx = kind === "svg" ? svgContext() : canvas.getContext("2d");
  ctx.fillStyle = colour("surface");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(kind === "svg" ? plot : plot.frame.canvas, MARGIN * scale, HEAD * scale);
  ctx.scale(scale, scale);
  ctx.textBaseline = "middle";
  const right = canvas.width / scale - MARGIN;
  text(ctx, title, MARGIN, HEAD / 2, { font: "600 13px JetBrains Mono Variable, monospace", room: right - MARGIN });
  if (rows.length === 1) text(ctx, rows[0].value, right, HEAD / 2, { align: "right" });
  const axisName =
    { step: "step", relative: "since the start", time: "time" }[axis] ?? axis.slice(axis.indexOf(" ") + 1);
  const look = { align: "right", paint: "faint", font: "10px Inter Variable, sans-serif" };
  text(ctx, axisName, right, HEAD + height / scale - 6, look);
  legend(ctx, shown, { top: HEAD + height / scale + 12, right, more: rows.length - shown.length });
  if (kind !== "svg") return new Promise((done) => canvas.toBlob(done));
  const size = `width="${canvas.width / scale}" height="${canvas.height / scale}"`;
  const box = `viewBox="0 0 ${canvas.width} ${canvas.height}"`;
  const all = `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${box}><g>${ctx.parts.join("\n")}</g></svg>\n`;
  return new Blob([all], { type: "image/svg+xml" });
}

function legend(ctx, rows, { top, right, more }) {
  if (!rows.length) return;
  const columns = ["max", "min", "value"];
  const wide = Math.min(84, Math.max(56, right / 7));
  columns.forEach((column, at) => text(ctx, column, right - at * wide, top, { align: "right", paint: "muted" }));
  rows.forEach((row, at) => {
    const middle = top + (at + 1) * ROW;
    ctx.fillStyle = seriesColour(row.colour);
    ctx.fillRect(MARGIN, middle - 4, 8, 8);
    text(ctx, row.label, MARGIN + 16, middle, { room: right - 3 * wide - MARGIN - 16 });
    columns.forEach((column, which) => text(ctx, row[column], right - which * wide, middle, { align: "right" }));
  });
  if (more > 0) text(ctx, `and ${more} more`, MARGIN + 16, top, { paint: "muted" });
}

const INTER = "12px Inter Variable, sans-serif";

function text(ctx, words, left, top, { align = "left", paint = "text", font = INTER, room = 0 } = {}) {
  ctx.font = font;
  ctx.textAlign = align;
  ctx.fillStyle = colour(paint);
  ctx.fillText(clipped(ctx, words, room), left, top);
}

function clipped(ctx, words, room) {
  if (!room || ctx.measureText(words).width <= room) return words;
  let [low, high] = [0, Math.min(words.length, 400)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(`${words.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return `${words.slice(0, low)}…`;
}

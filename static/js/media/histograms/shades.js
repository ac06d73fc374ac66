// Colours of a heat map. The scale goes by the square root of the share, so that thin tails are seen.
import { colour, faded, seriesColour } from "../../shared/colours.js";
import { number } from "../../shared/format.js";

const LAST = 64;
const WIDTH = 96;

export function shades() {
  return Array.from({ length: LAST + 1 }, (_, at) => faded(seriesColour(0), 0.06 + (0.94 * at) / LAST));
}

export function shadeOf(share, most) {
  return Math.round(Math.sqrt(share / most) * LAST);
}

// What the colours mean, above the plot.
export function drawLegend(plot, all, most) {
  const { pen } = plot;
  const right = plot.left(plot.x[1]);
  const words = number(most * 100, "%");
  const room = Math.min(WIDTH, plot.width / 3);
  const from = right - room - pen.measureText(words).width - 6;
  all.forEach((shade, at) => {
    // Whole pixels: where two overlapped, they would be darker.
    const [left, end] = [at, at + 1].map((place) => Math.round(from + (place * room) / all.length));
    pen.fillStyle = shade;
    pen.fillRect(left, 6, end - left, 8);
  });
  pen.fillStyle = colour("faint");
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  pen.fillText(words, right, 10.5);
  pen.fillText("share of the values  0 %", from - 6, 10.5);
}

// A canvas with two axes: sizes itself, draws its ticks, follows the theme, and says where pointer and keys are.
import { linearTicks } from "../../charts/scales/ticks.js";
import { colour, faded } from "../../shared/colours.js";
import { make } from "../../shared/dom.js";

const MARGIN = { left: 56, right: 12, top: 22, bottom: 24 };
const FONT = "11px Inter Variable, sans-serif";

export class Plot {
  // options: {label, paint(plot), mark(plot), onPoint(x, y) in values, onLeave(), onKey(key) -> whether it was one,
  // onPick(), tickX(value), tickY(value)}
  constructor(host, options) {
    this.options = options;
    /** @type {Span} from the lowest to the highest value in view */
    this.x = [0, 1];
    /** @type {Span} */
    this.y = [0, 1];
    this.canvas = make("canvas", { className: "media-plot", tabIndex: 0, role: "img", ariaLabel: options.label });
    this.canvas.setAttribute("aria-busy", "true"); // until there is something to read
    this.still = document.createElement("canvas"); // all but the crosshair
    host.append(this.canvas);
    this.resizer = new ResizeObserver(() => this.draw());
    this.resizer.observe(host);
    this.onTheme = () => this.draw();
    addEventListener("themechange", this.onTheme);
    this.canvas.addEventListener("pointermove", (event) => this.onPointer(event));
    this.canvas.addEventListener("pointerleave", () => options.onLeave());
    this.canvas.addEventListener("blur", () => options.onLeave());
    this.canvas.addEventListener("click", () => options.onPick?.());
    this.canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !options.onKey(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  left(value) {
    return MARGIN.left + ((value - this.x[0]) / (this.x[1] - this.x[0])) * this.width;
  }

  top(value) {
    return MARGIN.top + (1 - (value - this.y[0]) / (this.y[1] - this.y[0])) * this.height;
  }

  /** From the lowest to the highest value on each axis. @param {Span} x @param {Span} y */
  show(x, y) {
    this.x = x;
    this.y = y;
    this.canvas.removeAttribute("aria-busy");
    this.draw();
  }

  draw() {
    const { clientWidth, clientHeight } = this.canvas.parentElement ?? {};
    if (!clientWidth || !clientHeight) return;
    const ratio = devicePixelRatio || 1;
    this.width = clientWidth - MARGIN.left - MARGIN.right;
    this.height = clientHeight - MARGIN.top - MARGIN.bottom;
    for (const canvas of [this.canvas, this.still]) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
    }
    this.pen = this.still.getContext("2d");
    this.pen.scale(ratio, ratio);
    this.pen.font = FONT;
    this.frame();
    this.options.paint(this);
    this.mark();
  }

  // The crosshair alone: everything else is copied.
  mark() {
    if (!this.pen) return;
    const pen = this.canvas.getContext("2d");
    pen.resetTransform();
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.still, 0, 0);
    pen.scale(devicePixelRatio || 1, devicePixelRatio || 1);
    const painting = this.pen;
    this.pen = pen;
    this.options.mark(this);
    this.pen = painting;
  }

  frame() {
    const { pen } = this;
    const [bottom, right] = [MARGIN.top + this.height, MARGIN.left + this.width];
    pen.fillStyle = colour("faint");
    pen.strokeStyle = faded(colour("line-strong"), 0.4);
    pen.lineWidth = 1;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const value of linearTicks(...this.x, Math.max(2, Math.floor(this.width / 64)))) {
      const text = this.options.tickX(value);
      const half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(this.left(value), right + MARGIN.right - half - 2), bottom + 6);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of linearTicks(...this.y, Math.max(2, Math.floor(this.height / 44)))) {
      const y = Math.round(this.top(value)) + 0.5;
      pen.fillText(this.options.tickY(value), MARGIN.left - 6, y);
      line(pen, MARGIN.left, y, right, y);
    }
  }

  // An upright line through the whole height, at a value of x.
  upright(value, stroke, dash) {
    const { pen } = this;
    const x = Math.round(this.left(value)) + 0.5;
    pen.setLineDash(dash);
    pen.strokeStyle = stroke;
    line(pen, x, MARGIN.top, x, MARGIN.top + this.height);
  }

  // A box around a cell of a heat map, be it narrower than a box.
  box([from, to], [high, low]) {
    const { pen } = this;
    pen.setLineDash([]);
    pen.strokeStyle = colour("text");
    pen.strokeRect(from - 0.5, high - 0.5, Math.max(3, to - from) + 1, Math.max(3, low - high) + 1);
  }

  // What the shades of a heat map mean, above it: they run from what `low` says to what `high` says.
  legend(shades, low, high) {
    const { pen } = this;
    const right = this.left(this.x[1]);
    const room = Math.min(96, this.width / 3);
    const from = right - room - pen.measureText(high).width - 6;
    shades.forEach((shade, at) => {
      // Whole pixels: where two overlapped, they would be darker.
      const [left, end] = [at, at + 1].map((place) => Math.round(from + (place * room) / shades.length));
      pen.fillStyle = shade;
      pen.fillRect(left, 6, end - left, 8);
    });
    pen.fillStyle = colour("faint");
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillText(high, right, 10.5);
    pen.fillText(low, from - 6, 10.5);
  }

  onPointer({ offsetX, offsetY }) {
    if (!this.pen) return;
    const x = this.x[0] + ((offsetX - MARGIN.left) / this.width) * (this.x[1] - this.x[0]);
    const y = this.y[1] - ((offsetY - MARGIN.top) / this.height) * (this.y[1] - this.y[0]);
    this.options.onPoint(x, y);
  }

  close() {
    this.resizer.disconnect();
    removeEventListener("themechange", this.onTheme);
    this.canvas.remove();
  }
}

function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

// An image with what it is of. Small ones are drawn large, pixel by pixel; in full screen one zooms and drags.
import { make } from "../../shared/dom.js";
import { size } from "../../shared/format.js";
import { save } from "../../shared/save.js";
import { fileName } from "./save.js";

const MOST_ZOOM = 40;
const SMALL = 200; // pixels: below this, smoothing would hide what is in it

export class ImageView {
  isFile = true;

  constructor(host, { label, media, onOpen }) {
    this.media = media;
    this.label = label;
    // The label stands for it until it is known of which step it is.
    this.image = make("img", { loading: "lazy", decoding: "async", draggable: false, alt: label });
    this.element = make("div", { className: "media-image" }, this.image);
    this.image.addEventListener("error", () => this.element.classList.add("is-broken"));
    this.image.addEventListener("load", () => this.element.classList.remove("is-broken"));
    this.image.addEventListener("click", () => !this.isFull() && onOpen());
    this.zoom = new Zoom(this.element, this.image, () => this.isFull());
    host.append(this.element);
  }

  isFull() {
    return Boolean(this.element.closest("dialog"));
  }

  show(entry) {
    const { width, height, caption } = entry.meta;
    this.image.alt = caption || `${this.label} at step ${entry.step}`;
    this.image.classList.toggle("is-small", Math.max(width ?? SMALL, height ?? SMALL) < SMALL);
    this.image.src = this.media.file(entry.id);
    return {
      theirs: caption ?? "",
      ours: [width && height && `${width} × ${height}`, size(entry.size)].filter(Boolean).join(", "),
    };
  }

  prefetch(entry) {
    new Image().src = this.media.file(entry.id);
  }

  download(name, entry) {
    save(this.media.file(entry.id), fileName(name, entry.step, entry.meta.format ?? "png"));
  }

  close() {
    this.zoom.close();
    this.element.remove();
  }
}

// Zooms an element inside its frame, by wheel, by + - 0 and by dragging, while `isOn()`.
export class Zoom {
  constructor(frame, element, isOn) {
    this.frame = frame;
    this.element = element;
    this.isOn = isOn;
    this.reset();
    frame.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    frame.addEventListener("pointerdown", (event) => this.onDown(event));
    frame.addEventListener("pointermove", (event) => this.onMove(event));
    frame.addEventListener("pointerup", () => (this.from = null));
    frame.addEventListener("pointercancel", () => (this.from = null));
    frame.addEventListener("dblclick", () => this.reset());
    // With Ctrl, Meta or Alt the browser zooms the page.
    this.onKey = (event) => this.isOn() && !event.ctrlKey && !event.metaKey && !event.altKey && this.press(event.key);
    document.addEventListener("keydown", this.onKey);
  }

  reset() {
    this.scale = 1;
    this.x = this.y = 0;
    this.from = null;
    this.paint();
  }

  press(key) {
    if (key === "+" || key === "=") this.by(1.5);
    if (key === "-") this.by(1 / 1.5);
    if (key === "0") this.reset();
  }

  // Zooms about a place, given from the frame's middle.
  by(factor, x = 0, y = 0) {
    const scale = Math.min(MOST_ZOOM, Math.max(1, this.scale * factor));
    if (scale === 1) return this.reset();
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.paint();
  }

  paint() {
    const reach = (length) => ((this.scale - 1) * length) / 2; // further out there is nothing of it
    this.x = Math.max(-reach(this.frame.clientWidth), Math.min(reach(this.frame.clientWidth), this.x));
    this.y = Math.max(-reach(this.frame.clientHeight), Math.min(reach(this.frame.clientHeight), this.y));
    this.element.style.transform = this.scale === 1 ? "" : `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    this.frame.classList.toggle("is-zoomed", this.scale > 1);
  }

  onWheel(event) {
    if (!this.isOn()) return;
    event.preventDefault();
    const box = this.frame.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
    this.by(Math.exp(-event.deltaY / 300), x, y);
  }

  onDown(event) {
    if (!this.isOn() || this.scale === 1) return;
    this.from = { x: event.clientX - this.x, y: event.clientY - this.y };
    this.frame.setPointerCapture(event.pointerId);
  }

  onMove(event) {
    if (!this.from) return;
    this.x = event.clientX - this.from.x;
    this.y = event.clientY - this.from.y;
    this.paint();
  }

  close() {
    document.removeEventListener("keydown", this.onKey);
  }
}

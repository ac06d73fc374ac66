// Zooms an element inside its frame, by wheel, by + - 0 and by dragging, while `isOn()`.
const MOST = 40;

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
    const scale = Math.min(MOST, Math.max(1, this.scale * factor));
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
    this.by(
      Math.exp(-event.deltaY / 300),
      event.clientX - box.left - box.width / 2,
      event.clientY - box.top - box.height / 2,
    );
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

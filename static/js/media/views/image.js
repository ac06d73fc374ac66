// An image with what it is of. Small ones are drawn large, pixel by pixel; in full screen one zooms and drags.
import { size } from "../../shared/format.js";
import { save } from "../../shared/save.js";
import { fileName } from "./save.js";
import { Zoom } from "./zoom.js";

const SMALL = 200; // pixels: below this, smoothing would hide what is in it

export class ImageView {
  isFile = true;

  constructor(host, { label, media, onOpen }) {
    this.media = media;
    this.label = label;
    this.element = document.createElement("div");
    this.element.className = "media-image";
    this.image = document.createElement("img");
    this.image.loading = "lazy";
    this.image.decoding = "async";
    this.image.draggable = false;
    this.image.alt = label; // until it is known of which step it is
    this.image.addEventListener("error", () => this.element.classList.add("is-broken"));
    this.image.addEventListener("load", () => this.element.classList.remove("is-broken"));
    this.image.addEventListener("click", () => !this.isFull() && onOpen());
    this.element.append(this.image);
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

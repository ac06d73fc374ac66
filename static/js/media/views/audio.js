// A sound or a video with the browser's own player. Fetched whole: not every browser seeks in what comes in parts.
import { make } from "../../shared/dom.js";
import { count, size } from "../../shared/format.js";
import { save } from "../../shared/save.js";
import { fileName } from "./save.js";

export class AudioView {
  isFile = true;

  /** @returns {"audio" | "video"} */
  get tag() {
    return "audio";
  }

  constructor(host, { label, media }) {
    this.label = label;
    this.media = media;
    this.player = make(this.tag, { controls: true });
    this.element = make("div", { className: `media-${this.tag}` }, this.player);
    host.append(this.element);
  }

  show(entry) {
    const { caption } = entry.meta;
    this.player.setAttribute("aria-label", caption || `${this.label} at step ${entry.step}`);
    this.#load(entry.id);
    return { theirs: caption, ours: [...this.facts(entry.meta), size(entry.size)].filter(Boolean).join(", ") };
  }

  facts(meta) {
    const { channels, duration_s, sample_rate } = meta;
    return [`${duration_s.toFixed(2)} s`, `${count(sample_rate)} Hz`, channels > 1 && `${channels} channels`];
  }

  async #load(id) {
    this.shown = id;
    this.#unload();
    const answer = await fetch(this.media.file(id)).catch(() => null);
    const blob = answer?.ok ? await answer.blob() : null;
    if (this.shown !== id) return;
    this.element.classList.toggle("is-broken", !blob);
    if (blob) this.player.src = URL.createObjectURL(blob);
  }

  #unload() {
    URL.revokeObjectURL(this.player.src);
    this.player.removeAttribute("src");
    this.player.load(); // else the one before plays on
  }

  prefetch(entry) {
    fetch(this.media.file(entry.id)).catch(() => {}); // asked again when it is wanted
  }

  download(name, entry) {
    save(this.media.file(entry.id), fileName(name, entry.step, entry.meta.format));
  }

  close() {
    this.shown = null;
    this.#unload();
    this.element.remove();
  }
}

export class VideoView extends AudioView {
  /** @returns {"audio" | "video"} */
  get tag() {
    return "video";
  }

  facts(meta) {
    return [meta.format];
  }
}

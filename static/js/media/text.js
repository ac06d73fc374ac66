// A text, as it was logged: nothing in it is markup.
import { count } from "../format.js";
import { fileName, saveText } from "./save.js";

const SHOWN = 50_000; // characters; a browser lays out no more at once

export class TextView {
  constructor(host, { label }) {
    this.element = document.createElement("pre");
    this.element.className = "media-text";
    this.element.tabIndex = 0;
    this.element.dir = "auto";
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", `Text of ${label}`);
    host.append(this.element);
  }

  show(entry, { text }) {
    this.element.textContent = text.slice(0, SHOWN);
    this.element.scrollTop = 0;
    const all = `${count(text.length)} ${text.length === 1 ? "character" : "characters"}`;
    return { ours: text.length > SHOWN ? `the first ${count(SHOWN)} of ${all}; the download has all` : all };
  }

  download(name, entry, { text }) {
    saveText(text, fileName(name, entry.step, entry.meta.format === "markdown" ? "md" : "txt"), "text/plain");
  }

  close() {
    this.element.remove();
  }
}

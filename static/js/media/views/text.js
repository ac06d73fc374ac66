// A text, as it was logged; Markdown, or a page without scripts, where it says that it is such.
import { make } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { fileName, saveText } from "./save.js";

const EXTENSIONS = { markdown: "md", html: "html" };
const SHOWN = 50_000; // characters; a browser lays out no more at once

export class TextView {
  constructor(host, { label }) {
    const looks = { className: "media-text", tabIndex: 0, dir: "auto" };
    this.element = make("div", { ...looks, role: "region", ariaLabel: `Text of ${label}` });
    host.append(this.element);
  }

  show(entry, { text }) {
    const isMarkdown = entry.meta.format === "markdown";
    const isPage = entry.meta.format === "html";
    const shown = text.slice(0, SHOWN);
    this.element.classList.toggle("is-plain", !isMarkdown);
    this.element.replaceChildren(shown);
    this.element.scrollTop = 0;
    this.shown = shown;
    if (isMarkdown) this.#showMarkdown(shown);
    if (isPage) this.element.replaceChildren(make("iframe", { sandbox: "", srcdoc: text, title: "The page" }));
    const all = `${count(text.length)} ${text.length === 1 ? "character" : "characters"}`;
    return { ours: text.length > SHOWN && !isPage ? `the first ${count(SHOWN)} of ${all}; the download has all` : all };
  }

  async #showMarkdown(text) {
    const { render } = await import("./markdown.js");
    if (text === this.shown) this.element.replaceChildren(render(text));
  }

  download(name, entry, { text }) {
    saveText(text, fileName(name, entry.step, EXTENSIONS[entry.meta.format] ?? "txt"), "text/plain");
  }

  close() {
    this.element.remove();
  }
}

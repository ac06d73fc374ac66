// The line under an item: what the crosshair reads, else the item's own words and what we say of it.

export class Caption {
  constructor(element, body) {
    this.body = body;
    this.theirs = element.children[0];
    this.ours = element.children[1];
    this.words = {};
  }

  // words: {theirs: a caption that was logged, ours}
  set(words) {
    this.words = words;
    this.read("");
  }

  // For screen readers.
  read(text) {
    this.ours.setAttribute("aria-live", text && this.body.contains(document.activeElement) ? "polite" : "off");
    this.ours.textContent = text || this.words.ours || "";
    this.theirs.textContent = this.theirs.title = (!text && this.words.theirs) || "";
  }
}

// One card in a dialog that fills the window: Left and Right go to the neighbouring step, Escape closes.

export class Fullscreen {
  constructor(dialog) {
    this.dialog = dialog;
    this.card = null;
    this.place = document.createComment("");
    dialog.addEventListener("close", () => this.onClose());
    dialog.addEventListener("keydown", (event) => this.onKey(event));
  }

  toggle(card) {
    if (this.card) return this.dialog.close();
    this.card = card;
    card.element.before(this.place);
    this.dialog.append(card.element);
    this.dialog.setAttribute("aria-label", card.label);
    this.label("Close the full screen");
    card.title(card.item.name);
    this.dialog.showModal();
    this.button().focus();
  }

  onClose() {
    if (!this.card) return;
    this.label("Full screen");
    this.card.title();
    this.place.replaceWith(this.card.element);
    this.button().focus();
    this.card = null;
  }

  onKey(event) {
    if (event.target.matches("input, canvas") || event.ctrlKey || event.metaKey || event.altKey) return;
    const tool = { ArrowLeft: "previous", ArrowRight: "next" }[event.key];
    if (!tool || !this.card) return;
    event.preventDefault();
    this.card.onTool(tool);
  }

  button() {
    return this.card.element.querySelector("[data-tool=open]");
  }

  label(words) {
    this.button().setAttribute("aria-label", words);
    this.button().title = words;
  }
}

// One chart over the whole page, in a dialog of its own; the arrow keys lead to its neighbours, Escape back to where
// one was.
import { make } from "../../shared/dom.js";
import { Card } from "../cards/card.js";

export class Fullscreen {
  // cards() -> Map(name -> Card) in the order of the page; onOpen(name or null): called with what is open.
  constructor(cards, onOpen) {
    this.cards = cards;
    this.onOpen = onOpen;
    this.card = null; // the large one
    this.cameFrom = null;
  }

  get name() {
    return this.card?.name ?? null;
  }

  open(name) {
    if (name === null) return this.dialog?.close();
    const small = this.cards().get(name);
    if (!small || name === this.name) return;
    if (!this.dialog) this.raise();
    this.drop();
    this.card = new Card(name, small.context, { isLarge: true });
    small.twin = this.card;
    this.dialog.replaceChildren(this.card.element);
    this.dialog.setAttribute("aria-label", this.card.title);
    this.card.show();
    this.addNeighbours();
    this.card.element.querySelector('[data-tool="expand"]').focus({ focusVisible: false });
    this.onOpen(name);
  }

  raise() {
    this.cameFrom = /** @type {HTMLElement | null} */ (document.activeElement);
    this.dialog = make("dialog", { className: "chart-full" });
    this.dialog.addEventListener("keydown", (event) => this.onKey(event));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    this.dialog.addEventListener("close", () => this.fall());
    document.body.append(this.dialog);
    this.dialog.showModal();
  }

  fall() {
    this.drop();
    this.dialog.remove();
    this.dialog = null;
    if (this.cameFrom?.isConnected) this.cameFrom.focus();
    this.onOpen(null);
  }

  drop() {
    if (!this.card) return;
    const small = this.cards().get(this.card.name);
    if (small?.twin === this.card) small.twin = null;
    this.card.close();
    this.card = null;
  }

  // Both ways are buttons too.
  addNeighbours() {
    const bar = this.card.element.querySelector(".chart-neighbours");
    const names = [...this.cards().keys()];
    const at = names.indexOf(this.name);
    bar.hidden = names.length < 2;
    bar.querySelector("[data-place]").textContent = `${at + 1} of ${names.length}`;
    for (const button of bar.querySelectorAll("button"))
      button.addEventListener("click", () => this.go(Number(button.dataset.go)));
  }

  go(step) {
    const names = [...this.cards().keys()];
    const at = names.indexOf(this.name);
    this.open(names[(at + step + names.length) % names.length]);
  }

  onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.defaultPrevented || event.target.matches("input, select, .chart-resize")) return;
    event.preventDefault();
    this.go(step);
  }

  close() {
    this.dialog?.close();
  }
}

// What the page says in the place of charts, or above them, when there is something to explain.

export class Notes {
  constructor(element) {
    const part = (name) => element.querySelector(`[data-${name}]`);
    this.empty = part("empty");
    this.noMatch = part("no-match");
    this.filter = part("filter-note");
    this.gone = part("gone");
    this.unanswered = part("unanswered");
    this.lost = [];
  }

  // note: what there is to say of the pattern.
  show({ isListed, isUnanswered, numNames, numFitting, filter, note, isPartial }) {
    this.unanswered.hidden = !isUnanswered;
    this.empty.hidden = numNames > 0 || !isListed || isUnanswered || this.lost.length > 0;
    this.noMatch.hidden = numNames === 0 || numFitting > 0;
    if (!this.noMatch.hidden)
      this.noMatch.querySelector("p").textContent =
        `No metric${isPartial ? "" : ` of ${numNames}`} fits “${filter.trim()}”.`;
    this.filter.hidden = note === "";
    this.filter.textContent = note;
  }

  showGone(title, isOnly) {
    if (this.lost.includes(title)) return;
    this.lost.push(title);
    const names =
      this.lost.length > 3
        ? `${this.lost.length} of these runs were`
        : `${this.lost.join(", ")} ${this.lost.length > 1 ? "were" : "was"}`;
    const words = isOnly
      ? "What was loaded of it stays here until you leave the page."
      : "Their lines that were loaded stay here until you leave the page.";
    this.gone.querySelector("p").textContent = `${names} deleted. ${words}`;
    this.gone.hidden = false;
  }
}

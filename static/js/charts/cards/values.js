// The lines of a chart as a table: a row for each place that is drawn in view, a page at a time, the newest first.
import { make } from "../../shared/dom.js";
import { nextPlace, valuesAt, where } from "./reading.js";

const ROWS = 25;
const MOST_LINES = 12; // columns; how many more there are is said in the head

export class Values {
  constructor(host) {
    this.host = host;
    this.page = 0;
    this.table = make("table");
    this.caption = this.table.createCaption();
    this.head = this.table.createTHead().insertRow();
    this.body = this.table.createTBody();
    this.buttons = ["Newer", "Older"].map((textContent, at) => {
      const button = make("button", { type: "button", className: "btn btn-quiet btn-small", textContent });
      button.addEventListener("click", () => this.go(this.page + (at ? 1 : -1)));
      return button;
    });
    this.place = make("span");
    this.marks = make("ul"); // what is marked in the plot, restarts too
    host.append(this.table, make("p", {}, ...this.buttons, this.place), this.marks);
  }

  get isShown() {
    return !this.host.hidden;
  }

  // card: one that was drawn.
  show(card) {
    this.card = card;
    const { built, plot } = card;
    const [from, to] = plot.range;
    this.places = [];
    for (let at = nextPlace(built, built.x.length, -1); at !== null; at = nextPlace(built, at, -1))
      if (built.x[at] >= from && built.x[at] <= to) this.places.push(at);
    this.marks.replaceChildren(
      ...built.marks
        .filter(({ x }) => x >= from && x <= to)
        .sort((one, two) => one.x - two.x)
        .map((mark) => make("li", {}, `${where(mark.x, card.axis)}: ${card.reader.sentenceOf(mark)}`)),
    );
    this.go(this.page);
  }

  go(page) {
    const { card, places } = this;
    const { built, rows, axis, format } = card;
    const last = Math.max(0, Math.ceil(places.length / ROWS) - 1);
    this.page = Math.min(Math.max(0, page), last);
    const lines = rows.slice(0, MOST_LINES);
    const more = rows.length - lines.length;
    this.caption.textContent = more ? `${card.title}: the first ${lines.length} of ${rows.length} lines` : card.title;
    const heads = [axis.replace(/^value /, ""), ...lines.map(({ label }) => (rows.length > 1 ? label : card.title))];
    this.head.replaceChildren(...heads.map((textContent) => make("th", { scope: "col", textContent })));
    const shown = places.slice(this.page * ROWS, (this.page + 1) * ROWS);
    this.body.replaceChildren(...shown.map((at) => row(built, at, lines, axis, format)));
    this.place.textContent = places.length
      ? `${this.page * ROWS + 1} to ${this.page * ROWS + shown.length} of ${places.length}`
      : "no points in view";
    this.buttons[0].disabled = this.page === 0;
    this.buttons[1].disabled = this.page === last;
  }
}

// A line that has no point at this very place is left out there.
function row(built, at, lines, axis, format) {
  const values = valuesAt(built, at);
  const head = make("th", { scope: "row", textContent: where(built.x[at], axis).replace(/^step /, "") });
  const cells = lines.map(({ key }) => {
    const found = values.get(key);
    return make("td", { textContent: found?.x === built.x[at] ? format(found.value) : "" });
  });
  return make("tr", {}, head, ...cells);
}

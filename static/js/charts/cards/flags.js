// A flag at the top of each restart's line, and of each value that broke a rule: by pointer and by keyboard it says
// what ended the attempt before, or what was wrong with the value.
import { make } from "../../shared/dom.js";

const MOST = 16; // in view; with more the lines stand alone

export class Flags {
  // sentenceOf(mark) -> what it says
  constructor(sentenceOf) {
    this.sentenceOf = sentenceOf;
    this.flags = new Map(); // "run attempt" -> button
  }

  show(over, plot) {
    const [from, to] = plot.range;
    const inView = plot.built.marks.filter(({ x }) => x >= from && x <= to);
    const few = [inView, inView.filter(({ kind }) => kind !== "checkpoint")].find((all) => all.length <= MOST) ?? [];
    const shown = new Map(few.map((mark) => [keyOf(mark), mark]));
    for (const [key, flag] of this.flags) {
      if (shown.has(key)) continue;
      flag.remove();
      this.flags.delete(key);
    }
    for (const [key, mark] of shown) {
      const flag = this.flags.get(key) ?? make("button", { type: "button", className: "chart-flag" }, make("span"));
      this.flags.set(key, flag);
      if (flag.parentElement !== over) over.append(flag);
      const sentence = this.sentenceOf(mark);
      if (flag.getAttribute("aria-label") !== sentence) {
        flag.setAttribute("aria-label", sentence);
        flag.firstChild.textContent = sentence;
      }
      const left = plot.toLeft(mark.x);
      flag.dataset.kind = mark.kind ?? "";
      flag.style.transform = `translateX(${Math.round(left)}px)`;
      flag.classList.toggle("is-left", left > plot.width / 2);
      flag.firstChild.style.maxWidth = `${Math.min(260, Math.max(left, plot.width - left) - 4)}px`;
    }
  }
}

const keyOf = ({ run, attempt, sentence = "" }) => `${run} ${attempt} ${sentence}`;

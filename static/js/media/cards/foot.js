// The foot of a card: the slider over what was logged, its neighbours' buttons, and when that was.
import { age, count } from "../../shared/format.js";

export class Foot {
  // onGo(index)
  constructor(card, label, onGo) {
    this.entries = [];
    this.index = -1;
    this.slider = card.querySelector(".media-foot input");
    this.words = card.querySelector(".media-at");
    this.buttons = new Map(
      ["previous", "next", "newest"].map((tool) => [tool, card.querySelector(`[data-tool=${tool}]`)]),
    );
    this.slider.setAttribute("aria-label", `Step of ${label}`);
    this.slider.addEventListener("input", () => onGo(Number(this.slider.value)));
  }

  setEntries(entries) {
    this.entries = entries;
    this.slider.max = Math.max(0, entries.length - 1);
    this.slider.disabled = entries.length < 2;
  }

  show(index) {
    const isAtEnd = index >= this.entries.length - 1;
    const entry = this.entries[index];
    const words = entry
      ? this.wordsOf(entry)
      : this.entries.length
        ? `nothing by then; the first is at step ${count(this.entries[0].step)}`
        : "nothing yet";
    this.slider.value = Math.max(0, index);
    this.slider.setAttribute("aria-valuetext", words);
    this.words.textContent = entry ? `${words}, ${age(entry.time * 1000, Date.now())}` : words;
    this.words.title = entry ? new Date(entry.time * 1000).toLocaleString() : "";
    this.buttons.get("previous").disabled = index <= 0;
    this.buttons.get("next").disabled = this.buttons.get("newest").disabled = isAtEnd;
  }

  wordsOf({ step, rank, superseded }) {
    const who = new Set(this.entries.map((one) => one.rank)).size > 1 ? `, rank ${rank}` : "";
    return `step ${count(step)}${who}${superseded ? ", an older attempt" : ""}`;
  }
}

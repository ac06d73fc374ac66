// The slider of all cards. While it is on, each card shows what stands at its step; at its end, the newest.
import { count } from "../shared/format.js";
import { union } from "./steps.js";

export class Linked {
  constructor(form, onChange) {
    this.button = form.querySelector("[data-link]");
    this.slider = form.elements.step;
    this.words = form.querySelector("[data-all-at]");
    this.steps = [];
    this.isOn = false;
    this.step = null; // null: the newest
    this.onChange = onChange;
    this.button.addEventListener("click", () => this.turn(!this.isOn));
    this.slider.addEventListener("input", () =>
      this.go(Number(this.slider.value) >= this.steps.length - 1 ? null : this.steps[this.slider.value]),
    );
  }

  turn(isOn, step = null) {
    this.isOn = isOn;
    this.slider.hidden = !isOn;
    this.button.setAttribute("aria-pressed", String(isOn));
    this.go(isOn ? step : null);
  }

  // `who` is there already.
  go(step, who = null) {
    this.step = step;
    this.paint();
    this.onChange(who);
  }

  // lists: the steps of each card.
  setLists(lists) {
    this.steps = union(lists);
    this.paint();
  }

  paint() {
    const at = this.step === null ? this.steps.length - 1 : this.steps.findLastIndex((one) => one <= this.step);
    this.slider.max = Math.max(0, this.steps.length - 1);
    this.slider.value = Math.max(0, at);
    const words = this.step === null ? "newest" : `step ${count(this.step)}`;
    this.words.textContent = this.isOn ? words : "";
    this.slider.setAttribute("aria-valuetext", words);
  }
}

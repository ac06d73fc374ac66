// The switches above the charts: they show the page's state and change it.
import { shares } from "./slider.js";

export class Toolbar {
  // onChange(patch); onResetZoom(); onReset()
  constructor(form, { onChange, onResetZoom, onReset }) {
    this.form = form;
    this.fields = form.elements;
    this.onChange = onChange;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", ({ target }) => this.read(target));
    form.addEventListener("change", ({ target }) => target.name === "number" && this.showAmount());
    const { filter } = form.elements;
    filter.addEventListener("keydown", ({ key }) => key === "Escape" && this.clearFilter());
    form.querySelector("[data-reset-zoom]").addEventListener("click", onResetZoom);
    form.querySelector("[data-reset]").addEventListener("click", onReset);
    this.note = form.querySelector("[data-kept]");
    const view = form.querySelector(".chart-view");
    view.addEventListener("beforetoggle", () => place(view, form.querySelector(".chart-view-button")));
  }

  // What was typed before this script ran.
  get typed() {
    return this.fields.filter.value;
  }

  show(state, { isZoomed, isAsAtStart, hasRanks }) {
    const { fields } = this;
    if (document.activeElement !== fields.filter) fields.filter.value = state.filter;
    this.smoothing = state.smoothing;
    this.showAmount();
    fields.axis.value = state.axis;
    for (const name of ["isLogX", "isLogY", "ignoreOutliers"]) fields[name].checked = state[name];
    fields.ranks.checked = state.ranks === "band";
    fields.ranks.closest("label").hidden = !hasRanks;
    this.form.querySelector("[data-reset-zoom]").hidden = !isZoomed;
    this.form.querySelector("[data-reset]").hidden = isAsAtStart;
    this.form.querySelector("[data-view-mark]").hidden = isAsAtStart && !isZoomed;
  }

  showAmount() {
    const { kind, amount } = this.smoothing;
    const { kind: choice, slider, number } = this.fields;
    choice.value = kind;
    slider.value = shares.positionOf(amount);
    slider.setAttribute("aria-valuetext", kind === "none" ? "no smoothing" : String(amount));
    if (document.activeElement !== number) number.value = amount;
  }

  read(field) {
    const { kind, amount } = this.smoothing;
    const smoothed = (value) => ({ smoothing: { kind: kind === "none" ? "ema" : kind, amount: value } });
    if (field.name === "filter") this.onChange({ filter: field.value });
    else if (field.name === "kind") this.onChange({ smoothing: { kind: field.value, amount: amount || 0.6 } });
    else if (field.name === "slider") this.onChange(smoothed(shares.amountOf(Number(field.value))));
    else if (field.name === "number") this.onChange(smoothed(Number(field.value) || 0));
    else if (field.name === "axis") this.onChange({ axis: field.value });
    else if (field.name === "ranks") this.onChange({ ranks: field.checked ? "band" : "lines" });
    else this.onChange({ [field.name]: field.checked });
  }

  clearFilter() {
    this.fields.filter.value = "";
    this.onChange({ filter: "" });
  }

  // How keeping the view went: "kept" | "failed".
  showSaving(how, words) {
    this.note.dataset.how = how;
    this.note.textContent = words;
    clearTimeout(this.fading);
    if (how === "kept") this.fading = setTimeout(() => (this.note.textContent = ""), 4000);
  }

  close() {
    clearTimeout(this.fading);
  }
}

// Under its button where there is room beside; on a phone the stylesheet has it at the bottom.
function place(view, button) {
  const { bottom, right } = button.getBoundingClientRect();
  view.style.setProperty("--below", `${bottom + 4}px`);
  view.style.setProperty("--end", `${right}px`);
}

// Folds the rail to icons.
import { remember } from "./theme.js";

/** @param {HTMLElement} rail */
export function mount(rail) {
  const button = rail.querySelector("[data-rail-fold]");
  button?.addEventListener("click", () => {
    const root = document.documentElement;
    const isFolded = root.dataset.rail === "folded";
    if (isFolded) delete root.dataset.rail;
    else root.dataset.rail = "folded";
    remember("rail", isFolded ? "" : "folded");
  });
}

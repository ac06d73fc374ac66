// Checkboxes of a table and the bar that appears when some are set. What is selected stays so on other pages of the
// table and under other filters, for as long as the tab is open; the bar says how much of it is not in view, which
// nothing touches without a question. One button leaves of it what is in view.
import { all, make, need, seek } from "../shared/dom.js";
import { store, stored } from "../shared/stored.js";
import { runOf } from "./window.js";

const KEPT = "trainyard.selection";
const MOST = 500;
const MOST_COMPARED = 1000; // as many as the comparison takes

/** @param {HTMLElement} form @param {Set<string>} loaded the runs of all rows that were loaded */
export function startSelection(form, loaded) {
  const bar = need(form, ".selection-bar");
  const link = /** @type {HTMLAnchorElement} */ (need(bar, "[data-compare]"));
  const only = need(bar, "[data-only]");
  /** @type {string[]} */
  let selected = read();
  /** @type {HTMLInputElement | null} */
  let before = null; // the box that was clicked last, for shift-click
  const boxes = () => /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll(".row-check")]);

  /** @param {string} selector @param {string} words */
  const write = (selector, words) => void (need(bar, selector).textContent = words);
  /** @param {string} run */
  const isInView = (run) => loaded.has(run);
  function show() {
    for (const box of boxes()) {
      box.checked = selected.includes(box.value);
      box.closest("[aria-selected]")?.setAttribute("aria-selected", String(box.checked));
    }
    const inView = selected.filter(isInView).length;
    const num = selected.length;
    bar.hidden = num === 0;
    write("[data-count]", String(num));
    const away = num > inView ? `, ${num - inView} not in view` : "";
    write("[data-away]", away);
    only.hidden = !away || !inView;
    write("[data-only] > b", String(inView));
    const compared = selected.slice(0, MOST_COMPARED);
    const words = num > compared.length ? `the first ${compared.length}` : num;
    write("[data-compare] > :last-child", `Compare ${words} run${num === 1 ? "" : "s"}`);
    // A chosen run is shown, even if an earlier comparison hid it.
    const query = new URLSearchParams([...compared.map((run) => ["run", run]), ["hide", ""]]);
    link.href = `${link.dataset.compare}?${query}`;
    const report = /** @type {HTMLAnchorElement | null} */ (seek(bar, "[data-report]"));
    if (report) report.href = `${report.dataset.report}?${new URLSearchParams(selected.map((run) => ["run", run]))}`;
    // Rows that are scrolled away are in no form.
    const hidden = selected.map((run) => make("input", { type: "hidden", name: "run", value: run }));
    need(bar, "[data-others]").replaceChildren(...hidden);
    for (const { dataset } of all(bar, "[data-asks], [data-asks-away]")) {
      const { asks, asksAway } = dataset;
      if (asks || away) dataset.confirm = `${asks ?? asksAway} ${num} run${num === 1 ? "" : "s"}${away}?`;
      else delete dataset.confirm;
    }
    const isWhole = inView === loaded.size;
    Object.assign(seek(form, "[data-check-all]") ?? {}, {
      checked: inView && isWhole,
      indeterminate: inView && !isWhole,
    });
  }
  /** @param {string[]} runs */
  function keep(runs) {
    selected = runs.slice(-MOST);
    store("sessionStorage", KEPT, selected);
    show();
  }
  /** @param {string[]} runs @param {boolean} isSelected */
  function set(runs, isSelected) {
    const rest = selected.filter((run) => !runs.includes(run));
    keep(isSelected ? [...rest, ...runs] : rest);
  }
  /** @param {MouseEvent} event */
  function onClick(event) {
    const box = /** @type {HTMLInputElement} */ (event.target);
    if (box.closest?.("[data-clear]")) return keep([]);
    if (box.closest?.("[data-only]")) return keep(selected.filter(isInView));
    if (box.matches?.("[data-check-all]")) return set([...loaded], box.checked);
    if (!box.matches?.(".row-check")) return;
    const there = boxes();
    const ends = [event.shiftKey && before?.isConnected ? before : box, box].map((one) => there.indexOf(one));
    before = box;
    const range = there.slice(Math.min(...ends), Math.max(...ends) + 1).map(({ value }) => value);
    set(range, box.checked);
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {Element} */ (event.target);
    const isRow = event.key === "x" && form.contains(target);
    /** @type {HTMLInputElement | null | undefined} */
    const box = isRow ? target.closest("tr")?.querySelector(".row-check") : null;
    if (box) set([box.value], !box.checked);
    const isTyping = target.matches?.("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && !bar.hidden && !isTyping && !document.querySelector("dialog[open]")) keep([]);
  }
  // What was stopped or archived is done with; a run that was deleted is no more.
  /** @param {any} event */
  function onActed({ detail: button }) {
    if (bar.contains(button)) return keep([]);
    const run = runOf(button?.closest("tr"));
    if (run && /\/do\/(delete|archive)\/$/.test(button.formAction)) keep(selected.filter((one) => one !== run));
  }
  /** @param {PageTransitionEvent} event */
  function again(event) {
    if (event.persisted) keep(read()); // the selection may have changed on another page of the table since
  }
  form.addEventListener("click", onClick);
  form.addEventListener("acted", onActed);
  document.addEventListener("keydown", onKey);
  addEventListener("pageshow", again);
  show();
  return {
    show,
    set,
    end() {
      document.removeEventListener("keydown", onKey);
      removeEventListener("pageshow", again);
    },
  };
}

/** @returns {string[]} */
function read() {
  const kept = stored("sessionStorage", KEPT);
  return Array.isArray(kept) ? kept.filter((run) => typeof run === "string").slice(0, MOST) : [];
}

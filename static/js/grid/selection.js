// Checkboxes of a table and the bar that appears when some are set. What is selected stays so on other pages of the
// table and under other filters, for as long as the tab is open; the bar says how much of it is not in view, which
// nothing touches without a question. One button leaves of it what is in view.
import { make } from "../shared/dom.js";
import { runOf } from "./window.js";

const KEPT = "trainyard.selection";
const MOST = 500;
const MOST_COMPARED = 1000; // as many as the comparison takes

/** @param {HTMLElement} form @param {Set<string>} loaded the runs of all rows that were loaded */
export function startSelection(form, loaded) {
  const bar = /** @type {HTMLElement} */ (form.querySelector(".selection-bar"));
  const link = /** @type {HTMLAnchorElement} */ (bar.querySelector("[data-compare]"));
  const others = /** @type {HTMLElement} */ (bar.querySelector("[data-others]"));
  const only = /** @type {HTMLElement} */ (bar.querySelector("[data-only]"));
  /** @type {string[]} */
  let selected = read();
  /** @type {HTMLInputElement | null} */
  let before = null; // the box that was clicked last, for shift-click
  const boxes = () => /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll(".row-check")]);

  /** @param {string} selector @param {string} words */
  function write(selector, words) {
    const element = bar.querySelector(selector);
    if (element) element.textContent = words;
  }
  function show() {
    const all = boxes();
    for (const box of all) {
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
    others.replaceChildren(...selected.map(hidden)); // rows that are scrolled away are in no form
    /** @type {NodeListOf<HTMLElement>} */
    const asking = bar.querySelectorAll("[data-asks], [data-asks-away]");
    for (const button of asking) {
      const { asks, asksAway } = button.dataset;
      if (asks || away) button.dataset.confirm = `${asks ?? asksAway} ${num} run${num === 1 ? "" : "s"}${away}?`;
      else delete button.dataset.confirm;
    }
    const head = /** @type {HTMLInputElement | null} */ (form.querySelector("[data-check-all]"));
    if (head) {
      const most = loaded.size;
      head.checked = inView > 0 && inView === most;
      head.indeterminate = inView > 0 && inView < most;
    }
  }
  /** @param {string} run */
  function isInView(run) {
    return loaded.has(run);
  }
  /** @param {string[]} runs */
  function keep(runs) {
    selected = runs.slice(-MOST);
    sessionStorage.setItem(KEPT, JSON.stringify(selected));
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
    const all = boxes();
    const [from, to] = [
      event.shiftKey && before?.isConnected ? all.indexOf(before) : all.indexOf(box),
      all.indexOf(box),
    ].sort((a, b) => a - b);
    before = box;
    set(
      all.slice(from, to + 1).map(({ value }) => value),
      box.checked,
    );
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

/** @param {string} run */
function hidden(run) {
  return make("input", { type: "hidden", name: "run", value: run });
}

/** @returns {string[]} */
function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((run) => typeof run === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

// The launch form: what would come of it is fetched anew as one types; a chosen folder is sent at once.
import { confirm } from "../forms/forms.js";
import { toast } from "../frame/toasts.js";
import { on } from "../live/live.js";
import { patch } from "../live/patch.js";
import { all, around, need, seek } from "../shared/dom.js";
import { mountAll, sweep } from "../shared/modules.js";
import { upload } from "./code.js";
import { control, fill, kindOf, showKind, showNeeded } from "./fields.js";

const TYPING_MS = 250;
const QUIET_MS = 4000; // between two looks at the cluster while nobody types

/** @typedef {import("./fields.js").Control} Control */

/** @param {HTMLFormElement} form */
export function mount(form) {
  const aside = need(form, "[data-aside]");
  // Until one types.
  const invalid = /** @type {Control[]} */ (all(form, "[aria-invalid]"));
  const refused = new Map(invalid.map((input) => [input.name, problemOf(input)]));
  const touched = new Set(refused.keys());
  let kind = kindOf(form);
  let timer = 0;
  let lastAt = Date.now();
  let number = 0;

  /** @param {number} ms */
  function want(ms) {
    clearTimeout(timer);
    timer = setTimeout(refresh, ms);
  }
  async function refresh() {
    timer = 0;
    lastAt = Date.now();
    const mine = ++number;
    const body = new FormData(form);
    for (const name of ["files", "archive"]) body.delete(name);
    try {
      const answer = await fetch(form.dataset.preview ?? "", {
        method: "POST",
        body,
        headers: { "X-Requested-With": "fetch" },
      });
      if (!answer.ok || mine !== number || !form.isConnected) return;
      patch(aside, await answer.text());
      for (const axis of /** @type {HTMLInputElement[]} */ (all(aside, "[name=coloured-by]")))
        axis.checked = axis.defaultChecked;
      sweep();
      mountAll(aside);
      showProblems();
      showOverflow();
    } catch {
      // The server is away; the lamp shows it, and the next key repeats the request.
    }
  }
  function showProblems() {
    const words = new Map(all(aside, "[data-problem]").map((one) => [one.dataset.problem ?? "", one.textContent]));
    for (const field of all(form, ".field[data-path]")) {
      const path = field.dataset.path ?? "";
      const problem = touched.has(path) ? (words.get(path) ?? refused.get(path) ?? "") : "";
      const line = need(field, ".problem");
      const input = need(field, "[name]");
      line.textContent = problem;
      line.hidden = !problem;
      if (problem) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }
  function overflow() {
    return seek(aside, "[data-overflow]")?.dataset.overflow ?? "";
  }
  function showOverflow() {
    const { classList } = need(form, "[data-launch]");
    for (const name of ["btn-danger", "is-final"]) classList.toggle(name, Boolean(overflow()));
    classList.toggle("btn-primary", !overflow());
  }
  /** @param {SubmitEvent} event */
  async function onSubmit(event) {
    const words = overflow();
    if (!words || event.submitter !== form.querySelector("[data-launch]")) return;
    event.preventDefault();
    const name = control(form, "name").value;
    if (
      await confirm(
        `Launch ${name} although it ${words.includes("may not fit") ? "may" : "does"} not fit?`,
        words,
        "Launch anyway",
      )
    ) {
      form.requestSubmit(need(form, "[data-launch-anyway]"));
    }
  }
  /** @param {Event} event */
  function onInput(event) {
    const input = /** @type {Control} */ (event.target);
    if (input.type === "file") return;
    refused.clear();
    touched.add(around(event, ".field[data-path]")?.dataset.path ?? input.name);
    if (["task", "project"].includes(input.name)) switchKind(); // each has its own choices
    showNeeded(form);
    want(input.name === "coloured-by" ? 0 : TYPING_MS);
  }
  /** @param {Event} event */
  async function onChange(event) {
    const input = /** @type {HTMLInputElement} */ (event.target);
    if (input.type === "file" && (await upload(form, input))) {
      touched.add("task.code");
      want(0);
    }
  }
  function switchKind() {
    const before = kind;
    kind = kindOf(form);
    showKind(form, before);
  }
  /** @param {Event} event */
  function onClick(event) {
    const button = around(event, "[data-fields]");
    if (!button?.dataset.fields) return;
    fill(form, JSON.parse(button.dataset.fields));
    toast(`Filled in: ${button.dataset.words}.`);
    showNeeded(form);
    want(0);
  }
  function onNews() {
    if (!timer && !document.hidden) want(Math.max(0, lastAt + QUIET_MS - Date.now()));
  }

  // Something was typed before this script ran, or the browser restored it.
  const typed = /** @type {Control[]} */ ([...form.elements]).filter(isTyped);
  for (const input of typed) touched.add(input.name);
  if (typed.length) want(0);
  showKind(form, kind);
  showNeeded(form);
  form.addEventListener("input", onInput);
  form.addEventListener("change", onChange);
  form.addEventListener("click", onClick);
  form.addEventListener("submit", onSubmit);
  seek(form, "[data-focus]")?.focus();
  const stops = ["nodes", "run"].map((type) => on(type, onNews));
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

/** @param {Control} input */
function isTyped(input) {
  if (input instanceof HTMLSelectElement)
    return (
      input.selectedIndex !==
      Math.max(
        0,
        [...input.options].findIndex((one) => one.defaultSelected),
      )
    );
  if (input instanceof HTMLInputElement && ["checkbox", "radio"].includes(input.type))
    return input.checked !== input.defaultChecked;
  return (
    input.matches("input, textarea") && !["file", "hidden"].includes(input.type) && input.value !== input.defaultValue
  );
}

/** @param {Control} input */
function problemOf(input) {
  return input.closest(".field")?.querySelector(".problem")?.textContent ?? "";
}

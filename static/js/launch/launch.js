// The launch form: what would come of it is fetched anew as one types; a chosen folder is sent at once.
import { confirm } from "../forms/forms.js";
import { toast } from "../frame/toasts.js";
import { on } from "../live/live.js";
import { patch } from "../live/patch.js";
import { mountAll, sweep } from "../shared/modules.js";
import { upload } from "./code.js";
import { fill, kindOf, showKind, showNeeded } from "./fields.js";

const TYPING_MS = 250;
const QUIET_MS = 4000; // between two looks at the cluster while nobody types

export function mount(form) {
  const aside = form.querySelector("[data-aside]");
  // Until one types.
  const refused = new Map([...form.querySelectorAll("[aria-invalid]")].map((input) => [input.name, problemOf(input)]));
  const touched = new Set(refused.keys());
  let kind = kindOf(form);
  let timer = 0;
  let lastAt = Date.now();
  let number = 0;

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
      const answer = await fetch(form.dataset.preview, {
        method: "POST",
        body,
        headers: { "X-Requested-With": "fetch" },
      });
      if (!answer.ok || mine !== number || !form.isConnected) return;
      patch(aside, await answer.text());
      for (const axis of aside.querySelectorAll("[name=coloured-by]")) axis.checked = axis.defaultChecked;
      sweep();
      mountAll(aside);
      showProblems();
      showOverflow();
    } catch {
      // The server is away; the lamp shows it, and the next key repeats the request.
    }
  }
  function showProblems() {
    const words = new Map(
      [...aside.querySelectorAll("[data-problem]")].map((one) => [one.dataset.problem, one.textContent]),
    );
    for (const field of form.querySelectorAll(".field[data-path]")) {
      const problem = touched.has(field.dataset.path)
        ? (words.get(field.dataset.path) ?? refused.get(field.dataset.path) ?? "")
        : "";
      const line = field.querySelector(".problem");
      const input = field.querySelector("[name]");
      line.textContent = problem;
      line.hidden = !problem;
      if (problem) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }
  function overflow() {
    return aside.querySelector("[data-overflow]")?.dataset.overflow ?? "";
  }
  function showOverflow() {
    const { classList } = form.querySelector("[data-launch]");
    for (const name of ["btn-danger", "is-final"]) classList.toggle(name, Boolean(overflow()));
    classList.toggle("btn-primary", !overflow());
  }
  async function onSubmit(event) {
    const words = overflow();
    if (!words || event.submitter !== form.querySelector("[data-launch]")) return;
    event.preventDefault();
    const name = form.elements.name.value;
    if (
      await confirm(
        `Launch ${name} although it ${words.includes("may not fit") ? "may" : "does"} not fit?`,
        words,
        "Launch anyway",
      )
    ) {
      form.requestSubmit(form.querySelector("[data-launch-anyway]"));
    }
  }
  function onInput(event) {
    if (event.target.type === "file") return;
    refused.clear();
    touched.add(event.target.closest(".field[data-path]")?.dataset.path ?? event.target.name);
    if (["task", "project"].includes(event.target.name)) switchKind(); // each has its own choices
    showNeeded(form);
    want(event.target.name === "coloured-by" ? 0 : TYPING_MS);
  }
  async function onChange(event) {
    if (event.target.type === "file" && (await upload(form, event.target))) {
      touched.add("task.code");
      want(0);
    }
  }
  function switchKind() {
    const before = kind;
    kind = kindOf(form);
    showKind(form, before);
  }
  function onClick(event) {
    const button = event.target.closest("[data-fields]");
    if (!button) return;
    fill(form, JSON.parse(button.dataset.fields));
    toast(`Filled in: ${button.dataset.words}.`);
    showNeeded(form);
    want(0);
  }
  function onNews() {
    if (!timer && !document.hidden) want(Math.max(0, lastAt + QUIET_MS - Date.now()));
  }

  // Something was typed before this script ran, or the browser restored it.
  for (const input of form.elements) if (isTyped(input)) touched.add(input.name);
  if ([...form.elements].some(isTyped)) want(0);
  showKind(form, kind);
  showNeeded(form);
  form.addEventListener("input", onInput);
  form.addEventListener("change", onChange);
  form.addEventListener("click", onClick);
  form.addEventListener("submit", onSubmit);
  form.querySelector("[data-focus]")?.focus();
  const stops = ["nodes", "run"].map((type) => on(type, onNews));
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

function isTyped(input) {
  if (input.matches("select"))
    return (
      input.selectedIndex !==
      Math.max(
        0,
        [...input.options].findIndex((one) => one.defaultSelected),
      )
    );
  if (input.matches("[type=checkbox], [type=radio]")) return input.checked !== input.defaultChecked;
  return (
    input.matches("input, textarea") && !["file", "hidden"].includes(input.type) && input.value !== input.defaultValue
  );
}

function problemOf(input) {
  return input.closest(".field").querySelector(".problem").textContent;
}

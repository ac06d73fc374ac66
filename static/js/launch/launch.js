// The launch form: what would come of it is fetched anew as one types; a chosen folder is sent at once.
import { confirm, isTouched, post } from "../forms/forms.js";
import { writeClocks } from "../frame/ages.js";
import { toast } from "../frame/toasts.js";
import { on } from "../live/live.js";
import { patch } from "../live/patch.js";
import { all, around, need, put, say, seek } from "../shared/dom.js";
import { mountAll, sweep } from "../shared/modules.js";
import { control, fill, kindOf, reveal, showKind, showNeeded } from "./fields.js";

const LEFT_OUT = new Set([".git", "__pycache__", ".venv", ".trainyard", "trainyard-spool"]);
const MAX_FILES = 2000;
const TYPING_MS = 250;
const QUIET_MS = 4000; // between two looks at the cluster while nobody types
const MAX_YAML = 2 ** 20;

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
    for (const name of ["files", "archive", "yaml"]) body.delete(name);
    try {
      const headers = { "X-Requested-With": "fetch" };
      const answer = await fetch(form.dataset.preview ?? "", { method: "POST", body, headers });
      if (!answer.ok || mine !== number || !form.isConnected) return;
      patch(aside, await answer.text());
      writeClocks(aside);
      for (const axis of /** @type {HTMLInputElement[]} */ (all(aside, "[name=coloured-by]")))
        axis.checked = axis.defaultChecked;
      sweep();
      mountAll(aside);
      showProblems();
      showSaid();
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
      const input = need(field, "[name]");
      say(need(field, ".problem"), problem);
      if (problem && input.getAttribute("aria-invalid") !== "true") reveal(field);
      if (problem) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }
  // What the server says beside the fields: what each was in the source, and what is unusual in a group.
  function showSaid() {
    const words = new Map(all(aside, "[data-said]").map((one) => [one.dataset.said, one.textContent]));
    for (const one of all(form, "[data-says]")) put(one, words.get(one.dataset.says) ?? "");
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
    const verb = words.includes("may not fit") ? "may" : "does";
    const question = `Launch ${control(form, "name").value} although it ${verb} not fit?`;
    if (await confirm(question, words, "Launch anyway")) form.requestSubmit(need(form, "[data-launch-anyway]"));
  }
  /** @param {Event} event */
  function onInput(event) {
    const input = /** @type {Control} */ (event.target);
    if (input.type === "file" || input.name === "yaml") return;
    refused.clear();
    touched.add(around(event, ".field[data-path]")?.dataset.path ?? input.name);
    if (["task", "project"].includes(input.name)) switchKind(); // each has its own choices
    showNeeded(form);
    want(input.name === "coloured-by" ? 0 : TYPING_MS);
  }
  /** @param {Event} event */
  async function onChange(event) {
    const input = /** @type {HTMLInputElement} */ (event.target);
    if (input.matches("[data-yaml-file]")) return bring(input.files?.[0]);
    if (input.type === "file" && (await upload(form, input))) {
      touched.add("task.code");
      want(0);
    }
  }
  // Fills the form from a file, by way of the text of the spec.
  /** @param {File | undefined} file */
  async function bring(file) {
    if (!file) return;
    const isSpec = /\.(ya?ml|json)$/i.test(file.name) && file.size <= MAX_YAML;
    if (!isSpec) {
      toast(`${file.name} fills no form: a spec is a .yaml or .json file of at most 1 MB.`, { isProblem: true });
      return;
    }
    /** @type {HTMLTextAreaElement} */ (need(form, "[name=yaml]")).value = await file.text();
    form.requestSubmit(need(form, "[data-apply]"));
  }
  /** @param {DragEvent} event */
  function onDrag(event) {
    if (!event.dataTransfer?.types.includes("Files") || around(event, "[type=file]")) return;
    event.preventDefault();
    if (event.type === "drop") bring(event.dataTransfer.files[0]);
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
  const typed = /** @type {Control[]} */ ([...form.elements]).filter(isTouched);
  for (const input of typed) touched.add(input.name);
  if (typed.length) want(0);
  showKind(form, kind);
  showNeeded(form);
  showSaid();
  form.addEventListener("input", onInput);
  form.addEventListener("change", onChange);
  form.addEventListener("click", onClick);
  for (const type of ["dragover", "drop"]) form.addEventListener(type, /** @type {EventListener} */ (onDrag));
  form.addEventListener("submit", onSubmit);
  seek(form, "[data-focus]")?.focus();
  const stops = ["nodes", "run"].map((type) => on(type, onNews));
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

/** @param {Control} input */
function problemOf(input) {
  return input.closest(".field")?.querySelector(".problem")?.textContent ?? "";
}

// The code of a script on the launch form: a chosen folder or archive is sent at once.
/** @typedef {{sha256: string, label: string, files: string[]}} Stored */

// Sends what was chosen and puts it into the form; says whether that went well.
/** @param {HTMLFormElement} form @param {HTMLInputElement} input */
async function upload(form, input) {
  const body = new FormData();
  const files = [...(input.files ?? [])].filter(
    (file) => !file.webkitRelativePath.split("/").some((part) => LEFT_OUT.has(part)),
  );
  if (!files.length) return false;
  if (files.length > MAX_FILES) {
    toast(`This folder has ${files.length} files; a page sends at most ${MAX_FILES}. Pack it as .tar.gz.`, {
      isProblem: true,
    });
    return false;
  }
  for (const file of files) {
    body.append(input.name, file);
    if (file.webkitRelativePath) body.append("paths", file.webkitRelativePath);
  }
  body.append("project", control(form, "project").value);
  const status = need(form, "[data-upload-words]");
  status.textContent = `Sending ${files.length} ${files.length === 1 ? "file" : "files"}…`;
  /** @type {Stored | null} */
  const answer = await post(form.dataset.upload ?? "", body);
  input.value = "";
  status.textContent = answer ? `Stored ${answer.label}.` : "";
  if (answer) choose(form, answer);
  return Boolean(answer);
}

/** @param {HTMLFormElement} form @param {Stored} stored */
function choose(form, { sha256, label, files }) {
  const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem("task.code"));
  if (![...select.options].some((option) => option.value === sha256)) select.add(new Option(label, sha256), 1);
  select.value = sha256;
  const scripts = files.filter((name) => name.endsWith(".py"));
  need(form, "#scripts").replaceChildren(...scripts.map((name) => new Option(name, name)));
  const others = ["task.module", "task.command"].some((name) => control(form, name).value.trim());
  if (others) return;
  const script = control(form, "task.script");
  if (!scripts.includes(script.value) && scripts.length)
    script.value = scripts.find((name) => /(^|\/)(train|main)\.py$/.test(name)) ?? scripts[0];
}

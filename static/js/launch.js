// The launch form: what would come of it is fetched anew as one types; a chosen folder is sent at once.
import { post } from "./forms.js";
import { on } from "./live.js";
import { mountAll, sweep } from "./modules.js";
import { patch } from "./patch.js";
import { toast } from "./toasts.js";

const TYPING_MS = 250;
const QUIET_MS = 4000; // between two looks at the cluster while nobody types
const LEFT_OUT = new Set([".git", "__pycache__", ".venv", ".trainyard", "trainyard-spool"]);
const MAX_FILES = 2000;

export function mount(form) {
  const aside = form.querySelector("[data-aside]");
  const touched = new Set([...form.querySelectorAll("[aria-invalid]")].map((input) => input.name));
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
      const answer = await fetch(form.dataset.preview, { method: "POST", body, headers: { "X-Requested-With": "fetch" } });
      if (!answer.ok || mine !== number || !form.isConnected) return;
      patch(aside, await answer.text());
      for (const axis of aside.querySelectorAll("[name=coloured-by]")) axis.checked = axis.defaultChecked;
      sweep();
      mountAll(aside);
      showProblems();
    } catch {
      // The server is away; the lamp says so, and the next key asks again.
    }
  }
  function showProblems() {
    const words = new Map([...aside.querySelectorAll("[data-problem]")].map((one) => [one.dataset.problem, one.textContent]));
    for (const field of form.querySelectorAll(".field[data-path]")) {
      const problem = touched.has(field.dataset.path) ? (words.get(field.dataset.path) ?? "") : "";
      const line = field.querySelector(".problem");
      const input = field.querySelector("[name]");
      line.textContent = problem;
      line.hidden = !problem;
      if (problem) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }
  async function upload(input) {
    const body = new FormData();
    const files = [...input.files].filter((file) => !file.webkitRelativePath.split("/").some((part) => LEFT_OUT.has(part)));
    if (!files.length) return;
    if (files.length > MAX_FILES) return toast(`This folder has ${files.length} files; a page sends at most ${MAX_FILES}. Pack it as .tar.gz.`, { isProblem: true });
    for (const file of files) {
      body.append(input.name, file);
      if (file.webkitRelativePath) body.append("paths", file.webkitRelativePath);
    }
    body.append("project", form.elements.project.value);
    const status = form.querySelector("[data-upload-words]");
    status.textContent = `Sending ${files.length} ${files.length === 1 ? "file" : "files"}…`;
    const answer = await post(form.dataset.upload, body);
    input.value = "";
    status.textContent = answer ? `Stored ${answer.label}.` : "";
    if (answer) choose(answer);
  }
  function choose({ sha256, label, files }) {
    const select = form.elements["task.code"];
    if (![...select.options].some((option) => option.value === sha256)) select.add(new Option(label, sha256), 1);
    select.value = sha256;
    const scripts = files.filter((name) => name.endsWith(".py"));
    form.querySelector("#scripts").replaceChildren(...scripts.map((name) => new Option(name, name)));
    const script = form.elements["task.script"];
    if (!scripts.includes(script.value) && scripts.length) script.value = scripts.find((name) => /(^|\/)(train|main)\.py$/.test(name)) ?? scripts[0];
    touched.add("task.code");
    want(0);
  }
  function onInput(event) {
    if (event.target.type === "file") return;
    touched.add(event.target.name);
    showNeeded(form);
    want(event.target.name === "coloured-by" ? 0 : TYPING_MS);
  }
  function onChange(event) {
    if (event.target.type === "file") upload(event.target);
  }
  function onNews() {
    if (!timer && !document.hidden) want(Math.max(0, lastAt + QUIET_MS - Date.now()));
  }

  showNeeded(form); // a browser may have put back what was typed before
  form.addEventListener("input", onInput);
  form.addEventListener("change", onChange);
  form.querySelector("[data-focus]")?.focus();
  const stops = ["nodes", "run"].map((type) => on(type, onNews));
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

// Shows the fields that something reads, as far as the others say; what was typed into a hidden one stays there.
function showNeeded(form) {
  for (const field of form.querySelectorAll("[data-needs]")) {
    const { needs, needsValues, needsAbove, needsDefault } = field.dataset;
    const value = form.elements[needs].value.trim() || needsDefault;
    field.hidden = needsValues ? !needsValues.split(" ").includes(value) : !(Number(value) > Number(needsAbove));
  }
}

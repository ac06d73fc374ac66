// The code of a script on the launch form: a chosen folder or archive is sent at once.
import { post } from "../forms/forms.js";
import { toast } from "../frame/toasts.js";
import { need } from "../shared/dom.js";
import { control } from "./fields.js";

const LEFT_OUT = new Set([".git", "__pycache__", ".venv", ".trainyard", "trainyard-spool"]);
const MAX_FILES = 2000;

/** @typedef {{sha256: string, label: string, files: string[]}} Stored */

// Sends what was chosen and puts it into the form; says whether that went well.
/** @param {HTMLFormElement} form @param {HTMLInputElement} input */
export async function upload(form, input) {
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

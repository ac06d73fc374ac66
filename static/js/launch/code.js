// The code of a script on the launch form: a chosen folder or archive is sent at once.
import { post } from "../forms/forms.js";
import { toast } from "../frame/toasts.js";

const LEFT_OUT = new Set([".git", "__pycache__", ".venv", ".trainyard", "trainyard-spool"]);
const MAX_FILES = 2000;

// Sends what was chosen and puts it into the form; says whether that went well.
export async function upload(form, input) {
  const body = new FormData();
  const files = [...input.files].filter(
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
  body.append("project", form.elements.project.value);
  const status = form.querySelector("[data-upload-words]");
  status.textContent = `Sending ${files.length} ${files.length === 1 ? "file" : "files"}…`;
  const answer = await post(form.dataset.upload, body);
  input.value = "";
  status.textContent = answer ? `Stored ${answer.label}.` : "";
  if (answer) choose(form, answer);
  return Boolean(answer);
}

function choose(form, { sha256, label, files }) {
  const select = form.elements["task.code"];
  if (![...select.options].some((option) => option.value === sha256)) select.add(new Option(label, sha256), 1);
  select.value = sha256;
  const scripts = files.filter((name) => name.endsWith(".py"));
  form.querySelector("#scripts").replaceChildren(...scripts.map((name) => new Option(name, name)));
  const others = ["task.module", "task.command"].some((name) => form.elements[name].value.trim());
  if (others) return;
  const script = form.elements["task.script"];
  if (!scripts.includes(script.value) && scripts.length)
    script.value = scripts.find((name) => /(^|\/)(train|main)\.py$/.test(name)) ?? scripts[0];
}

// Short sentences about what was just done, with Undo where it can be taken back.
import { post } from "../forms/forms.js";

const SHOWN_MS = 7000;
let host = null;

export function mount(element) {
  host = element;
  for (const line of [...element.children]) {
    line.remove();
    toast(line.textContent, { undo: line.dataset.undo });
  }
  return () => {
    host = null;
  };
}

export function toast(sentence, { undo = "", isProblem = false } = {}) {
  if (!host || !sentence) return;
  const line = document.getElementById("toast-template").content.firstElementChild.cloneNode(true);
  line.querySelector("p").textContent = sentence;
  line.classList.toggle("is-red", isProblem);
  const [undoButton, close] = line.querySelectorAll("button");
  if (undo) {
    undoButton.hidden = false;
    undoButton.addEventListener("click", () => {
      line.remove();
      post(undo);
    });
  }
  close.addEventListener("click", () => line.remove());
  host.append(line);
  while (host.children.length > 4) host.firstElementChild.remove();
  let timer = setTimeout(() => line.remove(), SHOWN_MS);
  line.addEventListener("pointerenter", () => clearTimeout(timer));
  line.addEventListener("pointerleave", () => (timer = setTimeout(() => line.remove(), SHOWN_MS)));
}

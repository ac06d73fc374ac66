// The files of what is looked at.
import { saveBlob } from "../../shared/save.js";

export function saveText(text, name, type) {
  saveBlob(new Blob([text], { type: `${type};charset=utf-8` }), name);
}

// Short, and of letters that every file system takes.
export function fileName(name, step, ending) {
  return `${name.slice(0, 80).replace(/[^\p{L}\p{N}._-]+/gu, "-")}-step-${step}.${ending}`;
}

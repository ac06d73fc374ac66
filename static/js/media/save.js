// Hands a file to the browser's downloads.

export function saveText(text, name, type) {
  const href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  save(href, name);
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

export function save(href, name) {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}

// Short, and of letters that every file system takes.
export function fileName(name, step, ending) {
  return `${name.slice(0, 80).replace(/[^\p{L}\p{N}._-]+/gu, "-")}-step-${step}.${ending}`;
}

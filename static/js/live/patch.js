// Makes an element's content equal to new HTML by changing only what differs, so that focus, selection, open menus and
// scroll stay. Children are matched by `data-key` or `id`, else by place. What a person set (checked, value, open) is
// kept.
const KEPT = new Set(["open", "style"]);

export function patch(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  patchChildren(element, template.content);
}

function patchChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.nodeType === 1 ? keyOf(wanted) : "";
    let match = key ? keyed.get(key) : at;
    if (match && (!isSame(match, wanted) || (!key && match.nodeType === 1 && keyOf(match)))) match = null;
    if (!match) {
      old.insertBefore(wanted, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    keyed.delete(key);
    patchNode(match, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function patchNode(old, fresh) {
  if (old.nodeType !== 1) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.isEqualNode(fresh) || old.dataset.keep !== undefined) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
  }
  patchChildren(old, fresh);
}

function keyOf(element) {
  return element.dataset?.key ?? element.id ?? "";
}

function isSame(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.nodeType !== 1 || keyOf(a) === keyOf(b));
}

// Makes an element's content equal to new HTML by changing only what differs, so that focus, selection, open menus and
// scroll stay. Children are matched by `data-key` or `id`, else by place. What a person set (checked, value, open) is
// kept.
const KEPT = new Set(["open", "style"]);

/** @param {Element} element @param {string} html */
export function patch(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  patchChildren(element, template.content);
}

/** @param {ParentNode & Node} old @param {ParentNode & Node} fresh */
function patchChildren(old, fresh) {
  /** @type {Map<string, Element>} */
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    /** @type {Node | null | undefined} */
    let match = key ? keyed.get(key) : at;
    if (match && (!isSame(match, wanted) || (!key && keyOf(match)))) match = null;
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
    old.removeChild(at);
    at = next;
  }
}

/** The same for an element and a new one of its kind, attributes included. @param {Node} old @param {Node} fresh */
export function patchNode(old, fresh) {
  if (!(old instanceof Element) || !(fresh instanceof Element)) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.isEqualNode(fresh) || old.hasAttribute("data-keep")) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
  }
  patchChildren(old, fresh);
}

/** @param {Node} node @returns {string} */
const keyOf = (node) => (node instanceof Element ? (node.getAttribute("data-key") ?? node.id) : "");

/** @param {Node} a @param {Node} b */
const isSame = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

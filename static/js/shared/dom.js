// Elements with their types: what a template has for certain, what it may have, and what an event is about.

/** The element that the template has there. @param {ParentNode} root @param {string} selector */
export function need(root, selector) {
  const found = /** @type {HTMLElement | null} */ (root.querySelector(selector));
  if (!found) throw new Error(`the page has no ${selector}`);
  return found;
}

/**
 * A new element with these properties and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {Record<string, unknown>} [properties] @param {(Node | string)[]} children
 */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** The element, null where there is none. @param {ParentNode} root @param {string} selector */
export const seek = (root, selector) => /** @type {HTMLElement | null} */ (root.querySelector(selector));

/** @param {ParentNode} root @param {string} selector */
export const all = (root, selector) => /** @type {HTMLElement[]} */ ([...root.querySelectorAll(selector)]);

// The nearest element around the target of the event, null where there is none.
/** @param {Event} event @param {string} selector */
export function around(event, selector) {
  const target = /** @type {Element} */ (event.target);
  return /** @type {HTMLElement | null} */ (target.closest(selector));
}

/** Writes only what differs. @param {Element} element @param {string | null} text */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Shows the words; where there are none, the element is hidden.
/** @param {HTMLElement | null} element @param {string} words */
export function say(element, words) {
  if (!element) return;
  element.textContent = words;
  element.hidden = !words;
}

// Makes these the first in the host, in this order; what stands right is not touched.
/** @param {Element} host @param {Element[]} elements */
export function order(host, elements) {
  let at = host.firstElementChild;
  for (const element of elements) {
    if (element === at) at = at.nextElementSibling;
    else host.insertBefore(element, at);
  }
}

// Marks one of the lines below a field as chosen.
/** @param {HTMLElement} field @param {HTMLElement[]} lines @param {number} index */
export function choose(field, lines, index) {
  lines.forEach((line, at) => line.setAttribute("aria-selected", String(at === index)));
  lines[index]?.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", lines[index]?.id ?? "");
}

// While a terminal is there, styles that it makes go through the object model: the page's policy admits no inline ones.
// xterm.js makes <style> elements, and spans with a style attribute for colours beyond the palette.

// In the place of a <style> stands an element that shows nothing; its text becomes a sheet of the document.
/** @param {Set<CSSStyleSheet>} sheets */
function styleElement(sheets) {
  const sheet = new CSSStyleSheet();
  sheets.add(sheet);
  document.adoptedStyleSheets.push(sheet);
  const element = document.createElement("template");
  Object.defineProperty(element, "textContent", { set: (text) => sheet.replaceSync(text) });
  return element;
}

/** @this {HTMLElement} @param {string} name @param {string} value */
function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

// Returns what ends it.
export function divertStyles() {
  /** @type {Set<CSSStyleSheet>} */
  const sheets = new Set();
  const createElement = document.createElement.bind(document);

  /** @param {string} name @param {ElementCreationOptions} [options] */
  const diverting = (name, options) => {
    if (name === "style") return styleElement(sheets);
    const element = createElement(name, options);
    if (name === "span") element.setAttribute = setAttribute;
    return element;
  };
  Object.assign(document, { createElement: diverting });
  return () => {
    Reflect.deleteProperty(document, "createElement");
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
  };
}

// Markdown of logged texts as elements. Logged texts are not trusted: HTML in a text stays text, nothing is fetched for
// it, and a link says nothing of this page to where it leads. Fetched with the first text that is Markdown.
import DOMPurify from "dompurify";
import { Marked } from "marked";

const TAGS = "a blockquote br code del em header hr li ol p pre strong table tbody td th thead tr ul".split(" ");
const ATTRIBUTES = ["align", "href", "start", "title"];
const RULES = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ATTRIBUTES,
  ADD_URI_SAFE_ATTR: ["align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};

const DEEP = /(?:>[ \t]*){50}/;

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ text }) => escaped(text),
    code: ({ text }) => `<pre>${escaped(text)}</pre>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    // The page has headings of its own.
    heading({ tokens }) {
      return `<header>${this.parser.parseInline(tokens)}</header>`;
    },
  },
});
const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (element) => {
  if (element.nodeName !== "A") return;
  element.setAttribute("rel", "nofollow noopener noreferrer");
  element.setAttribute("target", "_blank");
});

// The text as a DocumentFragment.
export const render = (text) => purify.sanitize(htmlOf(text), { ...RULES, RETURN_DOM_FRAGMENT: true });

// A text of ten thousand ">" would be deeper than the parser goes, and take a second to fail.
function htmlOf(text) {
  try {
    if (!DEEP.test(text)) return /** @type {string} */ (marked.parse(text)); // never a promise: no part of it is async
  } catch {
    // Deep in another way.
  }
  return `<pre>${escaped(text)}</pre>`;
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

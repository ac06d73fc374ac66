// The few signs of Markdown that logged texts have, as elements: headings, lists, code, emphasis. All else stays text,
// links and HTML too.
const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|(?<![\w*])[*_](?![\s*_])(.+?)(?<![\s*_])[*_](?!\w)/gs;
const HEADING = /^#{1,6}\s+(.*)/;
const MOST = 4000; // characters of a paragraph in which signs are looked for: that takes time by the square

export function blocks(text) {
  const found = [];
  for (const [at, part] of text
    .replaceAll("\r\n", "\n")
    .split(/^```.*\n?/m)
    .entries()) {
    if (at % 2) found.push(element("pre", [part.replace(/\n$/, "")]));
    else
      for (const paragraph of part.split(/\n\s*\n/))
        if (paragraph.trim()) found.push(...block(paragraph.replace(/^\n+/, "").trimEnd()));
  }
  return found;
}

function block(text) {
  const lines = text.split("\n");
  const firstOther = lines.findIndex((line) => !HEADING.test(line));
  const headings = lines
    .splice(0, firstOther < 0 ? lines.length : firstOther)
    .map((line) => element("p", inline(HEADING.exec(line)[1]), "media-heading"));
  return [...headings, ...(lines.length ? [listOrParagraph(lines)] : [])];
}

function listOrParagraph(lines) {
  for (const [tag, bullet] of [
    ["ul", /^\s*[-*+]\s+/],
    ["ol", /^\s*\d+[.)]\s+/],
  ]) {
    if (lines.every((line) => bullet.test(line)))
      return element(
        tag,
        lines.map((line) => element("li", inline(line.replace(bullet, "")))),
      );
  }
  return element("p", inline(lines.join("\n")));
}

function inline(text) {
  if (text.length > MOST) return [text];
  const found = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    const [, , code, strong, slanted] = match;
    if (code !== undefined) found.push(element("code", [code]));
    else found.push(element(strong === undefined ? "em" : "strong", [strong ?? slanted]));
  }
  found.push(text.slice(from));
  return found;
}

function element(tag, children, name = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

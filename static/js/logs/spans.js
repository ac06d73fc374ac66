// The server counts characters, JavaScript counts those beyond the basic plane twice: [[from, to]] as JavaScript counts.
export function asUnits(text, spans) {
  if (!/[\ud800-\udbff]/.test(text)) return spans;
  const units = [];
  let at = 0;
  for (const one of text) {
    units.push(at);
    at += one.length;
  }
  return spans.map((span) => span.map((place) => units[place] ?? at));
}

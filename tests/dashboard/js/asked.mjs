// Asks the browser's modules in Node: each line in is an expression of JavaScript, each line out its value, or what it
// threw, as JSON in which NaN and Infinity may stand. The arguments are the folder of modules, and of packages by name.
import { register } from "node:module";
import { createInterface } from "node:readline";

const [modules, packages] = process.argv.slice(2);
const hooks = `
  const modules = ${JSON.stringify(modules)}, packages = ${packages};
  export const resolve = (name, context, next) =>
    next(packages[name] ?? name.replace("http://modules.invalid/", modules), context);
  export const load = (url, context, next) =>
    next(url, { ...context, format: url.startsWith("file:") ? "module" : context.format });
`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);

function plain(_key, value) {
  if (typeof value === "number" && !Number.isFinite(value)) return `\u0001${value}\u0001`;
  if (ArrayBuffer.isView(value)) return Array.from(value);
  return value === undefined ? null : value;
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    // biome-ignore lint/security/noGlobalEval: it is what this program is for
    answer = { value: await eval(JSON.parse(line)) };
  } catch (error) {
    answer = { error: `${error?.stack ?? error}` };
  }
  console.log(JSON.stringify(answer, plain).replace(/"\\u0001(NaN|-?Infinity)\\u0001"/g, "$1"));
}

// A field that finds runs by name, tag or id, and hands over the one that is chosen.
import { getJson } from "../charts/data/columns.js";
import { all, around, choose, make, need } from "../shared/dom.js";

const WAIT_MS = 120;

/** @typedef {{id: string, name: string, words: string}} Offer */
/** @typedef {{url: string, isHere: (id: string) => boolean, onAdd: (id: string) => void}} AddingOptions */

// `host` has an input and a list; `url` knows which runs there are; `isHere(id)` those that are not offered;
// `onAdd(id)` takes one.
/** @param {HTMLElement} host @param {AddingOptions} options */
export function startAdding(host, { url, isHere, onAdd }) {
  const input = /** @type {HTMLInputElement} */ (need(host, "input"));
  const list = need(host, "[role=listbox]");
  let timer = 0;
  let asked = 0;
  let drawn = ""; // the words that the list is for
  const options = () => all(list, "[data-id]");

  async function ask() {
    clearTimeout(timer);
    const mine = ++asked;
    const words = input.value.trim();
    const found = words ? (await find(url, words)).filter(({ id }) => !isHere(id)) : [];
    if (mine === asked) draw(found, words);
  }
  /** @param {Offer[]} found @param {string} words */
  function draw(found, words) {
    drawn = words;
    list.replaceChildren(...found.map(lineOf));
    list.hidden = !words;
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (words && !found.length) list.append(nothing(words));
    choose(input, options(), 0);
  }
  function close() {
    asked += 1;
    input.value = "";
    draw([], "");
  }
  function leave() {
    asked += 1;
    draw([], ""); // what was typed stays
  }
  /** @param {HTMLElement | null | undefined} line */
  function add(line) {
    if (!line?.dataset.id) return;
    close();
    onAdd(line.dataset.id);
  }
  async function addChosen() {
    if (input.value.trim() !== drawn) await ask(); // the list is still that of other words
    if (input.value.trim() === drawn) add(options().find((line) => line.getAttribute("aria-selected") === "true"));
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const lines = options();
    const at = lines.findIndex((line) => line.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" && lines.length) choose(input, lines, (at + 1) % lines.length);
    else if (event.key === "ArrowUp" && lines.length) choose(input, lines, (at - 1 + lines.length) % lines.length);
    else if (event.key === "Enter") addChosen();
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
  }
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  });
  input.addEventListener("keydown", onKey);
  input.addEventListener("blur", leave);
  input.addEventListener("focus", () => input.value && ask());
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => add(around(event, "[data-id]")));
  return () => clearTimeout(timer);
}

/** @param {string} url @param {string} words @returns {Promise<Offer[]>} */
async function find(url, words) {
  const asked = getJson(`${url}?runs=1&q=${encodeURIComponent(words)}`);
  /** @type {{items: {kind: string, url: string, label: string}[]}} */
  const { items } = await asked.catch(() => ({ items: [] }));
  return items.map(({ url: page, label, kind }) => ({ id: page.split("/").at(-2) ?? "", name: label, words: kind }));
}

/** @param {Offer} offer @param {number} index */
function lineOf({ id, name, words }, index) {
  const label = make("span", { className: "clip", textContent: name });
  const kind = make("span", { className: "muted xs nowrap push", textContent: words });
  const line = make("li", { id: `add-run-${index}`, role: "option" }, label, kind);
  line.dataset.id = id;
  return line;
}

/** @param {string} words */
function nothing(words) {
  const textContent = `No other run fits “${words}”.`;
  return make("li", { className: "muted small", role: "option", ariaDisabled: "true", textContent });
}

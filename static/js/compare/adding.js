// A field that finds runs by name, tag or id, and hands over the one that is chosen.
const WAIT_MS = 120;

// `host` has an input and a list; `url` knows which runs there are; `isHere(id)` those that are not offered;
// `onAdd(id)` takes one.
export function startAdding(host, { url, isHere, onAdd }) {
  const input = host.querySelector("input");
  const list = host.querySelector("[role=listbox]");
  let timer = 0;
  let asked = 0;
  let drawn = ""; // the words that the list is for

  async function ask() {
    clearTimeout(timer);
    const mine = ++asked;
    const words = input.value.trim();
    const found = words ? (await find(url, words)).filter(({ id }) => !isHere(id)) : [];
    if (mine === asked) draw(found, words);
  }
  function draw(found, words) {
    drawn = words;
    list.replaceChildren(...found.map(lineOf));
    list.hidden = !words;
    input.setAttribute("aria-expanded", !list.hidden);
    if (words && !found.length) list.append(nothing(words));
    select(0);
  }
  function select(index) {
    const all = options();
    all.forEach((line, at) => line.setAttribute("aria-selected", at === index));
    all[index]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", all[index]?.id ?? "");
  }
  function options() {
    return [...list.querySelectorAll("[data-id]")];
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
  function add(line) {
    if (!line) return;
    close();
    onAdd(line.dataset.id);
  }
  async function addChosen() {
    if (input.value.trim() !== drawn) await ask(); // the list is still that of other words
    if (input.value.trim() === drawn) add(options().find((line) => line.getAttribute("aria-selected") === "true"));
  }
  function onKey(event) {
    const all = options();
    const at = all.findIndex((line) => line.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" && all.length) select((at + 1) % all.length);
    else if (event.key === "ArrowUp" && all.length) select((at - 1 + all.length) % all.length);
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
  list.addEventListener("click", (event) => add(event.target.closest("[data-id]")));
  return () => clearTimeout(timer);
}

async function find(url, words) {
  const answer = await fetch(`${url}?q=${encodeURIComponent(words)}`, {
    headers: { "X-Requested-With": "fetch" },
  }).catch(() => null);
  if (!answer?.ok) return [];
  const { items } = await answer.json();
  return items
    .filter(({ kind }) => kind !== "page")
    .map(({ url: page, label, kind }) => ({ id: page.split("/").at(-2), name: label, words: kind }));
}

function lineOf({ id, name, words }, index) {
  const line = document.createElement("li");
  line.id = `add-run-${index}`;
  line.dataset.id = id;
  line.setAttribute("role", "option");
  for (const [className, text] of [
    ["clip", name],
    ["muted xs nowrap push", words],
  ]) {
    const part = document.createElement("span");
    part.className = className;
    part.textContent = text;
    line.append(part);
  }
  return line;
}

function nothing(words) {
  const line = document.createElement("li");
  line.className = "muted small";
  line.setAttribute("role", "option");
  line.setAttribute("aria-disabled", "true");
  line.textContent = `No other run fits “${words}”.`;
  return line;
}

// The Logs tab: the tail of all ranks merged, followed live. A push is a hint: the lines come over REST from a cursor
// that gives every line once, with the rank and the words that are asked for.
import { render } from "./ansi.js";
import { seriesToken } from "../colours.js";
import { count } from "../format.js";
import { on } from "../live.js";

const TAIL = 1000;
const PAGE = 1000;
const MAX_LINES = 5000; // in the page; all of them are in the download
const MIN_MS = 200;

export function mount(element) {
  const view = element.querySelector("[data-lines]");
  const form = element.querySelector("form");
  const more = element.querySelector("[data-new]");
  const note = element.querySelector("[data-note]");
  let cursor = "";
  let isFollowing = true;
  let numNew = 0;
  let isBusy = false;
  let isStale = false;
  let timer = 0;
  let asked = 0;

  async function load() {
    const mine = ++asked;
    const page = await get({ tail: "true", limit: TAIL });
    if (!page || mine !== asked) return;
    cursor = page.cursor;
    view.replaceChildren(...page.items.map(line));
    numNew = 0;
    settle(page.items.length);
    if (isFollowing) toEnd();
  }
  async function grow() {
    timer = 0;
    if (!cursor) return load();
    isBusy = true;
    const mine = asked;
    const page = await get({ after: cursor, limit: PAGE });
    isBusy = false;
    if (mine !== asked) return;
    if (!page) return later(3000);
    cursor = page.cursor;
    if (page.items.length) append(page.items);
    if (page.next || isStale) later(0);
    isStale = false;
  }
  function append(items) {
    view.append(...items.map(line));
    if (isFollowing) {
      trim();
      toEnd();
    } else {
      numNew += items.length;
      if (view.childElementCount > 2 * MAX_LINES) trim();
    }
    settle(view.childElementCount);
  }
  function trim() {
    const surplus = view.childElementCount - MAX_LINES;
    for (let at = 0; at < surplus; at += 1) view.firstElementChild.remove();
  }
  function settle(total) {
    more.hidden = isFollowing || numNew === 0;
    more.querySelector("span").textContent = `${count(numNew)} new ${numNew === 1 ? "line" : "lines"}`;
    note.hidden = total > 0;
    note.textContent = form.elements.q.value ? "No line holds these words." : "No line yet: what the ranks print appears here at once.";
  }
  function hint() {
    if (isBusy) isStale = true;
    else later(MIN_MS);
  }
  function later(wait) {
    if (!timer) timer = setTimeout(grow, wait);
  }
  async function get(query) {
    const { rank, q } = form.elements;
    const parameters = new URLSearchParams(query);
    if (rank.value !== "") parameters.set("rank", rank.value);
    if (q.value) parameters.set("q", q.value);
    const answer = await fetch(`${element.dataset.api}/logs?${parameters}`).catch(() => null);
    return answer?.ok ? answer.json() : null;
  }
  function toEnd() {
    view.scrollTop = view.scrollHeight;
  }
  function follow(wanted) {
    isFollowing = wanted;
    form.elements.follow.checked = wanted;
    if (wanted) {
      numNew = 0;
      trim();
      toEnd();
    }
    settle(view.childElementCount);
  }
  function onScroll() {
    const isAtEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 24;
    if (isAtEnd !== isFollowing) follow(isAtEnd);
  }
  let typing = 0;
  function onInput(event) {
    if (event.target.name === "follow") return follow(event.target.checked);
    if (event.target.name === "wrap") return view.classList.toggle("is-wrapped", event.target.checked);
    clearTimeout(typing);
    typing = setTimeout(load, 180);
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", onInput);
  more.addEventListener("click", () => follow(true));
  view.addEventListener("scroll", onScroll, { passive: true });
  const stops = ["logs", "refetch", "again", "run"].map((type) => on(type, hint));
  load();
  return () => {
    clearTimeout(timer);
    clearTimeout(typing);
    stops.forEach((stop) => stop());
  };
}

function line({ rank, stream, time, text }) {
  const row = document.createElement("div");
  row.className = stream === "stderr" ? "log-line is-stderr" : "log-line";
  const at = document.createElement("time");
  const moment = new Date(time * 1000);
  at.textContent = moment.toTimeString().slice(0, 8);
  at.title = `${moment.toISOString()}  ${stream}`;
  const who = document.createElement("span");
  who.className = `log-rank ${rank >= 0 ? seriesToken(rank) : ""}`;
  who.textContent = rank >= 0 ? rank : "·";
  who.title = rank >= 0 ? `rank ${rank}` : "the node";
  const words = document.createElement("span");
  words.className = "log-text";
  words.append(...render(text));
  row.append(at, who, words);
  return row;
}

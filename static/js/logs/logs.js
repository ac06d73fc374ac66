// The Logs tab: the lines of all ranks merged by time, as many as there are; searched, filtered, followed.
import { toast } from "../frame/toasts.js";
import { on } from "../live/live.js";
import { read, write } from "./address.js";
import { anywhere, commands, goTo, inList, unfold } from "./controls/commands.js";
import { Facets } from "./controls/facets.js";
import { LogMap } from "./controls/map.js";
import { Overview, Panel } from "./controls/panel.js";
import { View } from "./view.js";

const LEAST_HEIGHT = 420; // px; on a page with more above, the page scrolls
const TYPING_MS = 50;

export function mount(element) {
  const state = read(location.search);
  const lines = element.querySelector("[data-lines]");
  const panel = new Panel(element);
  const map = new LogMap(element.querySelector("[data-map]"), (share) =>
    view.choose(Math.floor(share * view.blocks.total), { where: "middle" }),
  );
  const facets = new Facets(element.querySelector("[data-facets]"), (kind, values) => {
    if (kind === "label") {
      search.value = values.length ? `label:${values[0]}` : "";
      return onSearch();
    }
    Object.assign(state, { [kind]: values, line: "" });
    renew();
  });
  let overview = null;
  const view = new View({ lines, base: element.dataset.api, start: Number(element.dataset.start), state, onChange });
  overview = new Overview({ element, view, panel, facets, map });
  const search = panel.form.elements.q;
  let typing = 0;
  search.value = state.q;

  function onChange(what) {
    if (!overview) return;
    panel.show(view);
    if (what === "drawn") overview.look();
    if (what === "grown") overview.grown();
    if (what === "hits" || what === "state") map.find(view.hits.items);
    if (what === "state") history.replaceState(history.state, "", location.pathname + write(state));
  }
  function renew() {
    view.load();
    overview.load();
  }
  function run(command, event) {
    if (!command) return;
    event.preventDefault();
    commands[command[0]](view, ...command.slice(1));
  }
  function onKey(event) {
    if (event.defaultPrevented) return;
    if (event.target === lines && inList(event)) {
      if (event.key === "c" && String(getSelection())) return; // what was marked by hand is what is copied
      return run(inList(event), event);
    }
    const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select, dialog");
    if (!isTyping && !document.querySelector("dialog[open]")) run(anywhere(event), event);
  }
  function onSearchKey(event) {
    if (event.key === "Enter") run(["hit", event.shiftKey ? -1 : 1], event);
    if (event.key === "ArrowDown") {
      run(["step", 1], event);
      lines.focus();
    }
    if (event.key === "Escape" && search.value) {
      event.preventDefault();
      search.value = "";
      onSearch();
    }
  }
  function onSearch() {
    clearTimeout(typing);
    typing = setTimeout(() => {
      if (search.value === state.q) return;
      Object.assign(state, { q: search.value, line: "" });
      view.isInPlace = false;
      view.load();
    }, TYPING_MS);
  }
  function onButton(event) {
    const button = event.target.closest("[data-do], [data-flag]");
    if (!button) return;
    const { do: verb, flag } = button.dataset;
    if (flag) {
      state[flag] = !state[flag];
      return view.load();
    }
    if (verb === "next" || verb === "previous") return commands.hit(view, verb === "next" ? 1 : -1);
    commands[verb](view);
    if (button.matches("[data-new]")) lines.focus();
  }
  function onClick(event) {
    const row = event.target.closest(".log-line");
    if (!row || row.classList.contains("is-coming")) return;
    if (!event.shiftKey && String(getSelection())) return; // text was marked
    const index = Number(row.getAttribute("aria-rowindex")) - 1;
    if (event.shiftKey) getSelection().removeAllRanges();
    view.choose(index, { isMore: event.shiftKey });
    lines.focus();
    if (event.target.closest(".log-more")) unfold(view, index);
    if (event.target.closest(".log-time")) commands.link(view);
  }
  function onDouble(event) {
    if (view.isSearching && event.target.closest(".log-line")) commands.place(view);
  }

  panel.form.addEventListener("submit", (event) => event.preventDefault());
  panel.form.elements.clock.addEventListener("change", (event) => {
    state.clock = event.target.value;
    view.scroller.redraw();
    onChange("state");
  });
  search.addEventListener("input", onSearch);
  search.addEventListener("keydown", onSearchKey);
  element.addEventListener("click", onButton);
  lines.addEventListener("click", onClick);
  lines.addEventListener("dblclick", onDouble);
  document.addEventListener("keydown", onKey);
  const unfit = fit(element);
  const stops = ["logs", "refetch", "again", "run"].map((type) => on(type, () => view.tail.hint()));
  start();
  async function start() {
    if (state.wrap) view.scroller.wrap(true);
    overview.load();
    const isSearch = Boolean(state.q);
    if (!state.line || isSearch) await view.load();
    if (state.line && !(await goTo(view, { line: state.line })) && !view.api.trouble) {
      toast("The line that this link is about is not among these.", { isProblem: true });
      view.isInPlace = false;
      view.follow(true);
    }
  }
  return () => {
    clearTimeout(typing);
    document.removeEventListener("keydown", onKey);
    stops.forEach((stop) => stop());
    unfit();
    for (const part of [view, map, overview]) part.close();
  };
}

// Gives an element the height that is left below it in the window, whatever stands above.
function fit(element) {
  const page = document.getElementById("main");
  function place() {
    const above = element.getBoundingClientRect().top + scrollY;
    const room = innerHeight - above - parseFloat(getComputedStyle(page).paddingBottom);
    element.style.height = `${Math.max(Math.min(LEAST_HEIGHT, innerHeight - 80), room)}px`;
  }
  const sizes = new ResizeObserver(place);
  for (const sibling of element.parentElement.children) if (sibling !== element) sizes.observe(sibling);
  addEventListener("resize", place);
  place();
  return () => {
    sizes.disconnect();
    removeEventListener("resize", place);
  };
}

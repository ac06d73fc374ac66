// The keys of a plot that has the focus.
import { nextPlace } from "../cards/reading.js";

const PAGE = 10; // points, with Shift
const NEAR = 0.9; // of the view: beyond it a step of the crosshair moves the view along

// An action that returns false leaves its key to the page; without a plot no key means anything.
export function listenKeys(pointing) {
  const { card } = pointing;
  const zoom = (factor) => card.zooming.about(pointing.x ?? (card.plot.range[0] + card.plot.range[1]) / 2, factor);
  const goFrom = (place, step) => pointing.goTo(nextPlace(card.built, place, step));
  const actions = {
    ArrowRight: ({ shiftKey }) => pointing.step(shiftKey ? PAGE : 1),
    ArrowLeft: ({ shiftKey }) => pointing.step(shiftKey ? -PAGE : -1),
    ArrowDown: () => pointing.nextLine(1),
    ArrowUp: () => pointing.nextLine(-1),
    "[": () => card.zooming.pan(-0.25),
    "]": () => card.zooming.pan(0.25),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5), // + without Shift
    "-": () => zoom(2),
    _: () => zoom(2), // - with it
    0: () => card.zooming.set(null),
    Home: () => (pointing.isHome() ? card.zooming.set(null) : goFrom(-1, 1)),
    End: () => goFrom(card.built.x.length, -1),
    Enter: () => card.context.onOpen(card.isLarge ? null : card.name),
    l: () => card.press("log"),
    n: () => card.press("note"),
    Escape: () => (pointing.place === null ? false : pointing.leave()),
  };
  card.host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== card.host || !card.plot?.frame) return;
    const act = actions[event.key];
    if (!act || act(event) === false) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

// The range moved so that x is in view with room before it; the same range where it is.
export function following([from, to], x, isLog) {
  const put = isLog ? Math.log : (value) => value;
  const share = (put(x) - put(from)) / (put(to) - put(from));
  if (share >= 1 - NEAR && share <= NEAR) return 0;
  return share < 0 || share > 1 ? share - 0.5 : share > NEAR ? share - NEAR : share - (1 - NEAR);
}

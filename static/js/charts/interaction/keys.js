// The keys of a plot that has the focus.
const PAGE = 10; // points, with Shift
const NEAR = 0.9; // of the view: beyond it a step of the crosshair moves the view along

// on: {step(points), pan(share), zoom(factor), reset(), open(), log(), note(), line(±1), ends(±1), leave()}
// isDrawn(): whether there is a plot; without one no key means anything.
export function listenKeys(element, on, isDrawn) {
  const actions = {
    ArrowRight: ({ shiftKey }) => on.step(shiftKey ? PAGE : 1),
    ArrowLeft: ({ shiftKey }) => on.step(shiftKey ? -PAGE : -1),
    ArrowDown: () => on.line(1),
    ArrowUp: () => on.line(-1),
    "[": () => on.pan(-0.25),
    "]": () => on.pan(0.25),
    "+": () => on.zoom(0.5),
    "=": () => on.zoom(0.5), // + without Shift
    "-": () => on.zoom(2),
    _: () => on.zoom(2), // - with it
    0: () => on.reset(),
    Home: () => on.ends(-1),
    End: () => on.ends(1),
    Enter: () => on.open(),
    l: () => on.log(),
    n: () => on.note(),
    Escape: () => on.leave(),
  };
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== element || !isDrawn()) return;
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

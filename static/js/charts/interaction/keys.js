// The keys of a plot that has the focus.
const NEAR = 0.9; // of the view: beyond it a step of the crosshair moves the view along

// actions: by key; one that returns false does nothing. isDrawn(): whether there is a plot; without one no key means
// anything.
export function listenKeys(element, actions, isDrawn) {
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

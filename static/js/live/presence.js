// Whether somebody may be looking: a page in the background for a while is as good as away, one that is left is gone.
const HIDDEN_MS = 30_000;

// Calls onAway and onBack, in turns as it happens; returns what ends that.
/** @param {Record<"onAway" | "onBack" | "onLeave" | "onReturn", () => void>} on */
export function watchPresence({ onAway, onBack, onLeave, onReturn }) {
  let hiding = 0;
  function onVisibility() {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(onAway, HIDDEN_MS);
    else onBack();
  }
  /** @type {[EventTarget, string, (event: any) => void][]} */
  const events = [
    [document, "visibilitychange", onVisibility],
    [window, "pagehide", onLeave],
    [window, "pageshow", (event) => event.persisted && onReturn()],
  ];
  for (const [target, name, listener] of events) target.addEventListener(name, listener);
  if (document.hidden) onVisibility(); // opened in the background
  return () => {
    clearTimeout(hiding);
    for (const [target, name, listener] of events) target.removeEventListener(name, listener);
  };
}

// Eyes in the table of runs: which are chosen for a comparison, on whatever page of the table they stand.
const KEPT = "trainyard.eyes";
const MOST = 100; // as many as the comparison takes

export function mount(host) {
  const bar = host.querySelector(".selection-bar");
  const link = bar.querySelector("[data-compare]");
  const words = bar.querySelector("[data-num-eyes]");
  let chosen = read();

  function show() {
    for (const eye of host.querySelectorAll("[data-eye]")) {
      const isChosen = chosen.includes(eye.dataset.eye);
      if (eye.getAttribute("aria-pressed") !== String(isChosen)) eye.setAttribute("aria-pressed", isChosen);
    }
    const checked = [...host.querySelectorAll(".row-check:checked")].map((box) => box.value);
    const runs = [...new Set([...chosen, ...checked])].slice(0, MOST);
    words.textContent = `Compare ${runs.length} run${runs.length === 1 ? "" : "s"}`;
    // Whoever chose a run wants to see it, whatever was hidden in an earlier comparison.
    link.href = `${link.dataset.compare}?${new URLSearchParams([...runs.map((run) => ["run", run]), ["hide", ""]])}`;
    bar.classList.toggle("is-eyes-only", checked.length === 0);
    bar.hidden = runs.length === 0;
  }
  function toggle(run) {
    keep(chosen.includes(run) ? chosen.filter((one) => one !== run) : [...chosen, run].slice(-MOST));
  }
  function keep(runs) {
    chosen = runs;
    sessionStorage.setItem(KEPT, JSON.stringify(chosen));
    show();
  }
  function onClick(event) {
    const eye = event.target.closest("[data-eye]");
    if (eye) return toggle(eye.dataset.eye);
    if (event.target.closest("[data-clear]")) keep([]);
  }
  function again(event) {
    if (event.persisted) keep(read()); // eyes that were set on another page of the table since
  }
  function onKey(event) {
    if (event.key !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    const eye = event.target.closest("tr")?.querySelector("[data-eye]");
    if (eye) toggle(eye.dataset.eye);
  }
  host.addEventListener("click", onClick);
  host.addEventListener("keydown", onKey);
  host.addEventListener("selected", show); // which it is told whenever rows come and go, too
  addEventListener("pageshow", again);
  show();
  return () => removeEventListener("pageshow", again);
}

function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((run) => typeof run === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

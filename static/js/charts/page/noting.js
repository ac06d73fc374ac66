// Notes of people at a step: asked for in a dialog, kept with the run, marked in its charts.

// page: the Charts of charts.js. Returns what asks for a note at a step.
export function startNoting(page) {
  const dialog = page.element.querySelector("dialog.note-dialog");
  if (!dialog) return () => {}; // who may write none
  const form = dialog.querySelector("form");
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  form.addEventListener("acted", () => {
    form.reset();
    dialog.close();
    page.runs.ask(page.runs.list[0], () => page.redraw(), true);
  });
  return (step) => {
    form.elements.step.value = step;
    dialog.showModal();
  };
}

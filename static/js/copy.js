// Copies the text of a button's `data-copy`.
import { toast } from "./toasts.js";

export function mount(element) {
  const button = element.matches("[data-copy]") ? element : element.querySelector("[data-copy]");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      toast("Copied.");
    } catch {
      toast("This browser does not let the page copy; select the text instead.", { isProblem: true });
    }
  });
}

// The card by which a person has this browser show notices: it subscribes at the push service of the browser's maker,
// and gives the subscription to the server, as a rule of the person.
import { need, say } from "../shared/dom.js";
import { store, stored } from "../shared/stored.js";

const WORKER = "/notices_worker.js";
const RULES = "/api/v1/notices/rules";
const KEPT = "browser-notices"; // the id of this browser's rule

/** @param {HTMLElement} card */
export function mount(card) {
  const button = need(card, "button");
  const problem = need(card, "[role=alert]");
  if (!isSecureContext) return say(problem, "Browsers show notices of https addresses and of localhost only.");
  if (!("PushManager" in window && "Notification" in window))
    return say(problem, "This browser does not take notices that a server sends.");
  findSubscription().then((subscription) => {
    need(card, subscription && ruleOfHere() ? "[data-is-on]" : "button").hidden = false;
  });
  button.addEventListener("click", async () => {
    button.setAttribute("aria-busy", "true");
    try {
      store("localStorage", KEPT, await save(card, await subscribe(card.dataset.key ?? "")));
      location.reload();
    } catch (error) {
      say(problem, /** @type {Error} */ (error).message);
    }
    button.removeAttribute("aria-busy");
  });
}

// The id of this browser's rule, where it is in the list: it may have been deleted, or be somebody else's.
function ruleOfHere() {
  const id = stored("localStorage", KEPT);
  return document.querySelector(`[data-key="rule-${CSS.escape(id ?? "")}"]`) && /** @type {string} */ (id);
}

async function findSubscription() {
  const registration = await navigator.serviceWorker.getRegistration("/");
  return registration?.pushManager.getSubscription();
}

// A new one always: the one that is there may be of another key of the server, or of whoever was signed in before.
/** @param {string} key the server's @returns {Promise<PushSubscription>} */
async function subscribe(key) {
  if ((await Notification.requestPermission()) !== "granted")
    throw new Error("The browser does not allow it: let this site show notifications, in the browser's settings.");
  await navigator.serviceWorker.register(WORKER);
  const { pushManager } = await navigator.serviceWorker.ready;
  await (await pushManager.getSubscription())?.unsubscribe();
  try {
    return await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  } catch (error) {
    throw new Error(`The browser's push service did not answer (${/** @type {Error} */ (error).message}).`);
  }
}

/** @param {HTMLElement} card @param {PushSubscription} subscription @returns {Promise<string>} the id of the rule */
async function save(card, subscription) {
  const destination = JSON.stringify({ ...subscription.toJSON(), name: card.dataset.name });
  const known = ruleOfHere();
  const made = { where: "browser", kinds: JSON.parse(card.dataset.kinds ?? "{}"), only_mine: true };
  const token = document.querySelector("meta[name=csrf-token]")?.getAttribute("content") ?? "";
  const answer = await fetch(known ? `${RULES}/${known}` : RULES, {
    method: known ? "PATCH" : "POST",
    headers: { "Content-Type": "application/json", "X-CSRFToken": token },
    body: JSON.stringify(known ? { destination } : { ...made, destination }),
  });
  const words = await answer.json().catch(() => ({}));
  if (!answer.ok)
    throw new Error(words.errors?.[0]?.message ?? words.detail ?? `The server answered ${answer.status}.`);
  return words.id;
}

// A session that ends while a page is open. What the page asks for waits, nothing that was typed is lost, and a dialog
// offers to sign in; then everything goes on where it was.
import { say, seek } from "../shared/dom.js";

const PATH = "/sign-in/";
const real = window.fetch.bind(window);
/** @typedef {{onEnd: () => void, onBack: () => void}} Follower */
/** @typedef {{status: number, username?: string, csrf?: string, sentence?: string}} SessionState */
/** @type {Set<Follower>} */
const streams = new Set(); // {onEnd, onBack} of what keeps a socket open
/** @type {HTMLDialogElement | null} */
let dialog = null;
/** @type {{promise: Promise<void>, resolve: () => void} | null} */
let waiting = null; // {promise, resolve} while nobody is signed in
/** @type {string | null} */
let token = null; // of the new session's forms

/** @param {HTMLDialogElement} element */
export function mount(element) {
  dialog = element;
  window.fetch = ask;
  const form = element.querySelector("form");
  form?.addEventListener("submit", onSignIn);
  form?.querySelector("[data-close]")?.addEventListener("click", () => element.close());
  const over = new AbortController();
  const { signal } = over;
  document.addEventListener("submit", onSend, { signal });
  document.addEventListener("visibilitychange", look, { signal });
  window.addEventListener("focus", look, { signal });
  return () => {
    window.fetch = real;
    over.abort();
    dialog = null;
  };
}

/** Notifies a stream of the end of the session and of its return; returns what ends that. @param {Follower} stream */
export function follow(stream) {
  streams.add(stream);
  return () => void streams.delete(stream);
}

// The session has ended. Nothing happens where nobody can sign in (a page without the dialog).
export function ended() {
  if (!dialog) return;
  if (!waiting) {
    waiting = Promise.withResolvers();
    for (const { onEnd } of streams) onEnd();
  }
  if (!dialog.open) dialog.showModal();
}

export const isOver = () => waiting !== null;

// fetch() for the whole page: after a 401 it waits for the sign-in and repeats the request.
/** @param {RequestInfo | URL} url @param {RequestInit} [options] */
async function ask(url, options = {}) {
  if (new URL(url instanceof Request ? url.url : url, location.href).origin !== location.origin)
    return real(url, options);
  for (;;) {
    await waiting?.promise;
    const answer = await real(url, renewed(options));
    if (answer.status !== 401 || !dialog) return answer;
    ended();
  }
}

/** @param {RequestInit} options @returns {RequestInit} */
function renewed(options) {
  if (token === null) return options;
  if (options.body instanceof FormData && options.body.has("csrfmiddlewaretoken"))
    options.body.set("csrfmiddlewaretoken", token);
  const headers = new Headers(options.headers);
  if (!headers.has("X-CSRFToken")) return options;
  headers.set("X-CSRFToken", token);
  return { ...options, headers };
}

// A form that leaves the page would lose what was typed: it is sent once the session is known to live.
/** @param {SubmitEvent} event */
async function onSend(event) {
  const { submitter } = event;
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (event.defaultPrevented || form.method !== "post" || form.dataset.isSent !== undefined) return;
  event.preventDefault();
  submitter?.setAttribute("aria-busy", "true");
  // Where the server is away, the browser shows it.
  await ask(PATH, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
  submitter?.removeAttribute("aria-busy");
  form.dataset.isSent = "";
  form.requestSubmit(submitter);
  delete form.dataset.isSent;
}

/** @param {SubmitEvent} event */
async function onSignIn(event) {
  event.preventDefault();
  event.stopPropagation();
  const form = /** @type {HTMLFormElement} */ (event.target);
  event.submitter?.setAttribute("aria-busy", "true");
  const state = await request();
  let answer = state;
  if (state?.status === 401) {
    const headers = { "X-Requested-With": "fetch", "X-CSRFToken": state.csrf ?? "" };
    answer = await request({ method: "POST", body: new FormData(form), headers });
  }
  event.submitter?.removeAttribute("aria-busy");
  if (answer?.status === 200) return goOn(answer);
  say(seek(form, ".problem"), answer?.sentence ?? "The server did not answer. Try again.");
  const password = /** @type {HTMLInputElement} */ (form.elements.namedItem("password"));
  password.value = "";
  password.focus();
}

// Somebody may have signed in on another page, such as by a link.
async function look() {
  if (!waiting || document.hidden) return;
  const state = await request();
  if (state?.status === 200) goOn(state);
}

/** @param {RequestInit} [options] @returns {Promise<SessionState | null>} */
function request(options = { headers: { "X-Requested-With": "fetch" } }) {
  return real(PATH, options).then(
    async (answer) => ({ status: answer.status, ...(await answer.json().catch(() => ({}))) }),
    () => null,
  );
}

/** @param {SessionState} state */
function goOn({ username, csrf = "" }) {
  if (!waiting || !dialog) return;
  if (username !== dialog.dataset.user) return location.reload(); // a page of somebody else's
  token = csrf;
  document.querySelector("meta[name=csrf-token]")?.setAttribute("content", csrf);
  /** @type {NodeListOf<HTMLInputElement>} */
  const inputs = document.querySelectorAll("[name=csrfmiddlewaretoken]");
  for (const input of inputs) input.value = csrf;
  dialog.querySelector(".problem")?.setAttribute("hidden", "");
  dialog.querySelector("form")?.reset();
  dialog.close();
  const { resolve } = waiting;
  waiting = null;
  resolve();
  for (const { onBack } of streams) onBack();
}

// A session that ends while a page is open. What the page asks for waits, nothing that was typed is lost, and a dialog
// offers to sign in; then everything goes on where it was.
const PATH = "/sign-in/";
const real = window.fetch.bind(window);
const streams = new Set(); // {onEnd, onBack} of what keeps a socket open
let dialog = null;
let waiting = null; // {promise, resolve} while nobody is signed in
let token = null; // of the new session's forms

export function mount(element) {
  dialog = element;
  window.fetch = ask;
  const form = dialog.querySelector("form");
  form.addEventListener("submit", onSignIn);
  form.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  document.addEventListener("submit", onSend);
  document.addEventListener("visibilitychange", look);
  window.addEventListener("focus", look);
  return () => {
    window.fetch = real;
    document.removeEventListener("submit", onSend);
    document.removeEventListener("visibilitychange", look);
    window.removeEventListener("focus", look);
    dialog = null;
  };
}

// Whoever keeps a socket is told of the end of the session and of its return; returns what ends that.
export function follow(stream) {
  streams.add(stream);
  return () => streams.delete(stream);
}

// The server does not know us any more. Nothing happens where nobody can sign in (a page without the dialog).
export function ended() {
  if (!dialog) return;
  if (!waiting) {
    waiting = {};
    waiting.promise = new Promise((resolve) => (waiting.resolve = resolve));
    for (const { onEnd } of streams) onEnd();
  }
  if (!dialog.open) dialog.showModal();
}

export const isOver = () => waiting !== null;

// fetch() for the whole page: an answer of 401 is waited out, and asked for again as who signed in.
async function ask(url, options = {}) {
  if (new URL(url, location.href).origin !== location.origin) return real(url, options);
  for (;;) {
    await waiting?.promise;
    const answer = await real(url, renewed(options));
    if (answer.status !== 401 || !dialog) return answer;
    ended();
  }
}

function renewed(options) {
  if (token === null) return options;
  if (options.body instanceof FormData && options.body.has("csrfmiddlewaretoken"))
    options.body.set("csrfmiddlewaretoken", token);
  return options.headers?.["X-CSRFToken"]
    ? { ...options, headers: { ...options.headers, "X-CSRFToken": token } }
    : options;
}

// A form that leaves the page would lose what was typed: it is sent once the session is known to live.
async function onSend(event) {
  const { target: form, submitter } = event;
  if (event.defaultPrevented || form.method !== "post" || form.dataset.isSent !== undefined) return;
  event.preventDefault();
  submitter?.setAttribute("aria-busy", "true");
  // Where the server is away, the browser says so.
  await ask(PATH, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
  submitter?.removeAttribute("aria-busy");
  form.dataset.isSent = "";
  form.requestSubmit(submitter);
  delete form.dataset.isSent;
}

async function onSignIn(event) {
  event.preventDefault();
  event.stopPropagation();
  const form = event.target;
  event.submitter?.setAttribute("aria-busy", "true");
  const state = await request();
  let answer = state;
  if (state?.status === 401) {
    const headers = { "X-Requested-With": "fetch", "X-CSRFToken": state.csrf };
    answer = await request({ method: "POST", body: new FormData(form), headers });
  }
  event.submitter?.removeAttribute("aria-busy");
  if (answer?.status === 200) return goOn(answer);
  const line = dialog.querySelector(".problem");
  line.textContent = answer?.sentence ?? "The server did not answer. Try again.";
  line.hidden = false;
  form.elements.password.value = "";
  form.elements.password.focus();
}

// Somebody may have signed in on another page, such as by a link.
async function look() {
  if (!waiting || document.hidden) return;
  const state = await request();
  if (state?.status === 200) goOn(state);
}

function request(options = { headers: { "X-Requested-With": "fetch" } }) {
  return real(PATH, options).then(
    async (answer) => ({ status: answer.status, ...(await answer.json().catch(() => ({}))) }),
    () => null,
  );
}

function goOn({ username, csrf }) {
  if (!waiting) return;
  if (username !== dialog.dataset.user) return location.reload(); // a page of somebody else's
  token = csrf;
  document.querySelector("meta[name=csrf-token]").content = csrf;
  for (const input of document.querySelectorAll("[name=csrfmiddlewaretoken]")) input.value = csrf;
  dialog.querySelector(".problem").hidden = true;
  dialog.querySelector("form").reset();
  dialog.close();
  const { resolve } = waiting;
  waiting = null;
  resolve();
  for (const { onBack } of streams) onBack();
}

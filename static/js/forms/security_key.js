// A form that is sent with what a security key answered (WebAuthn). Without the key's answer it is not sent.

/** @param {HTMLFormElement} form */
export function mount(form) {
  const field = /** @type {HTMLInputElement} */ (form.elements.namedItem("credential"));
  const problem = form.querySelector("[role=alert]");
  /** @param {string} words */
  const say = (words) => {
    if (!(problem instanceof HTMLElement)) return;
    problem.textContent = words;
    problem.hidden = false;
  };
  form.addEventListener("submit", async (event) => {
    if (field.value) return;
    event.preventDefault();
    event.stopPropagation();
    if (!window.PublicKeyCredential) {
      say("This browser uses security keys on https addresses and on localhost only.");
      return;
    }
    const text = document.getElementById(form.dataset.options ?? "")?.textContent ?? "{}";
    try {
      const answer = await ceremony(form.dataset.ceremony === "create", JSON.parse(text).publicKey);
      field.value = JSON.stringify(answer);
    } catch {
      say("The security key did not answer, or you broke it off. Try again.");
      return;
    }
    form.requestSubmit();
  });
}

// Runs the browser's dialog; resolves to what the server checks.
/** @param {boolean} isNew @param {any} options */
async function ceremony(isNew, options) {
  const publicKey = { ...options, challenge: bytes(options.challenge) };
  for (const list of ["excludeCredentials", "allowCredentials"])
    if (options[list]) publicKey[list] = options[list].map((/** @type {any} */ one) => ({ ...one, id: bytes(one.id) }));
  if (isNew) publicKey.user = { ...options.user, id: bytes(options.user.id) };
  const found = /** @type {PublicKeyCredential | null} */ (
    await (isNew ? navigator.credentials.create({ publicKey }) : navigator.credentials.get({ publicKey }))
  );
  if (!found) throw new Error("no answer");
  const response = /** @type {any} */ (found.response);
  /** @type {Record<string, string | null>} */
  const parts = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"])
    if (response[name]) parts[name] = base64url(response[name]);
  return {
    id: found.id,
    rawId: base64url(found.rawId),
    type: found.type,
    clientExtensionResults: found.getClientExtensionResults(),
    response: parts,
  };
}

/** @param {string} text */
function bytes(text) {
  const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}

/** @param {ArrayBuffer} buffer */
function base64url(buffer) {
  const binary = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

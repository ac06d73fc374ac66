// A real SAML 2.0 identity provider for tests, on the loopback:
// node saml.mjs PORT KEY_FILE CERTIFICATE_FILE METADATA_URL
// METADATA_URL is the site's. People are put at /people/NAME (JSON of their attributes); its own page signs in whoever
// is there, and posts the signed answer to the site.
import { readFileSync } from "node:fs";
import http from "node:http";
import samlify from "samlify";

const [port, keyFile, certificateFile, metadataUrl] = process.argv.slice(2);
const address = `http://127.0.0.1:${port}`;
const entityID = `${address}/saml`;
const people = new Map();
// How somebody signed in, which samlify leaves to those who use it.
const statement =
  '<saml:AuthnStatement AuthnInstant="{IssueInstant}" SessionIndex="{AssertionID}"><saml:AuthnContext>' +
  "<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>" +
  "</saml:AuthnContext></saml:AuthnStatement>";
const { binding, format } = samlify.Constants.namespace;

// samlify asks for a checker of schemas, and brings none. This one takes what can be read as a request.
const { extract, loginRequestFields } = samlify.Extractor;
samlify.setSchemaValidator({ validate: async (text) => extract(text, loginRequestFields) });

// A list is as many attributes of one name: that is how samlify says it.
function providerFor(attributes) {
  const stated = Object.entries(attributes).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const provider = samlify.IdentityProvider({
    entityID,
    privateKey: readFileSync(keyFile, "utf8"),
    signingCert: readFileSync(certificateFile, "utf8"),
    requestSignatureAlgorithm: "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
    nameIDFormat: [format.persistent],
    singleSignOnService: [{ Binding: binding.redirect, Location: `${entityID}/sign-on` }],
    loginResponseTemplate: {
      context: samlify.SamlLib.defaultLoginResponseTemplate.context.replace("{AuthnStatement}", statement),
      attributes: stated.map(([name], index) => ({
        name,
        valueTag: `value${index}`, // in the template it is {attrValue0}
        nameFormat: "urn:oasis:names:tc:SAML:2.0:attrname-format:basic",
        valueXsiType: "xs:string",
      })),
    },
  });
  return { provider, values: Object.fromEntries(stated.map(([, value], index) => [`attrValue${index}`, value])) };
}

async function answerTo(query, name) {
  const site = samlify.ServiceProvider({ metadata: await (await fetch(metadataUrl)).text() });
  const { provider, values } = providerFor(people.get(name));
  const request = await provider.parseLoginRequest(site, "redirect", { query });
  const target = site.entityMeta.getAssertionConsumerService("post");
  const now = new Date().toISOString();
  const until = new Date(Date.now() + 300_000).toISOString();
  const tags = {
    ID: provider.entitySetting.generateID(),
    AssertionID: provider.entitySetting.generateID(),
    IssueInstant: now,
    Destination: target,
    InResponseTo: request.extract.request.id,
    Issuer: entityID,
    StatusCode: "urn:oasis:names:tc:SAML:2.0:status:Success",
    NameIDFormat: format.persistent,
    NameID: name,
    SubjectConfirmationDataNotOnOrAfter: until,
    SubjectRecipient: target,
    ConditionsNotBefore: now,
    ConditionsNotOnOrAfter: until,
    Audience: site.entityMeta.getEntityID(),
  };
  const fill = (template) => {
    return { id: tags.ID, context: samlify.SamlLib.replaceTagsByValue(template, { ...tags, ...values }) };
  };
  const made = await provider.createLoginResponse(site, request, "post", { email: name }, fill);
  return { target, answer: made.context };
}

const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const page = (body) => `<!doctype html><meta charset="utf-8"><title>Example Corp</title><body>${body}`;

async function body(request) {
  let text = "";
  for await (const part of request) text += part;
  return text;
}

async function handle(request, response) {
  const url = new URL(request.url, address);
  const name = /^\/people\/(\w+)$/.exec(url.pathname)?.[1];
  if (name) {
    people.set(name, JSON.parse(await body(request)));
    response.writeHead(204).end();
  } else if (url.pathname === "/saml/sign-on" && request.method === "GET") {
    const fields = '<input name="name" placeholder="Name"><button>Sign in at Example Corp</button>';
    response.setHeader("Content-Type", "text/html").end(page(`<form method="post">${fields}</form>`));
  } else if (url.pathname === "/saml/sign-on") {
    const who = new URLSearchParams(await body(request)).get("name");
    const { target, answer } = await answerTo(Object.fromEntries(url.searchParams), who);
    const field = `<input type="hidden" name="SAMLResponse" value="${escaped(answer)}">`;
    const form = `<form method="post" action="${escaped(target)}">${field}</form>`;
    response.setHeader("Content-Type", "text/html").end(page(`${form}<script>document.forms[0].submit()</script>`));
  } else {
    response.writeHead(404).end();
  }
}

http
  .createServer((request, response) => {
    handle(request, response).catch((error) => {
      console.error(error);
      response.writeHead(500).end(String(error));
    });
  })
  .listen(Number(port), "127.0.0.1", () => console.log(`listening ${address}`));

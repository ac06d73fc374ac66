// A real OpenID Connect provider for tests, on the loopback: node server.mjs PORT CLIENT_ID CLIENT_SECRET REDIRECT_URI...
// People are put and deleted at /people/NAME (JSON of their claims); its own pages sign in whoever is there.
import http from "node:http";
import Provider from "oidc-provider";

const [port, clientId, clientSecret, ...redirectUris] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const people = new Map();

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: clientId,
      client_secret: clientSecret,
      redirect_uris: redirectUris,
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  claims: {
    openid: ["sub"],
    email: ["email", "email_verified"],
    profile: ["preferred_username", "given_name", "family_name", "groups"],
  },
  cookies: { keys: ["tests"] },
  findAccount: (_context, id) =>
    people.has(id) ? { accountId: id, claims: () => ({ sub: id, ...people.get(id) }) } : undefined,
  issueRefreshToken: () => true,
  pkce: { required: () => true },
});
const answer = provider.callback();

http
  .createServer((request, response) => {
    const name = /^\/people\/(\w+)$/.exec(request.url)?.[1];
    if (!name) {
      answer(request, response);
      return;
    }
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      if (request.method === "DELETE") people.delete(name);
      else people.set(name, JSON.parse(text));
      response.writeHead(204).end();
    });
  })
  .listen(Number(port), "127.0.0.1", () => console.log(`listening ${issuer}`));

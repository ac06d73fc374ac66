"""The site of apps: a host name for each rank and port of a run, entered with a ticket, open to the holder of its
cookie. None of the dashboard's pages, cookies or routes is here."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import structlog
from channels.db import database_sync_to_async
from django.conf import settings
from redis.exceptions import RedisError

from dashboard.http.asgi import ASGIMessage, Receive, Scope, Send
from dashboard.proxy import exchanges
from dashboard.proxy.headers import COOKIE, SECURE_COOKIE, Headers, cookie_of, towards_app, value_of, why_not_from_here
from dashboard.proxy.tunnel import Channel, NotPassedOn, Tunnel, TunnelClosed
from dashboard.sockets.admission import one_per_loop
from runs.interactive import app_tickets
from runs.interactive.addresses import App, ProxyOrigin
from runs.interactive.app_tickets import ENTRY_PATH, AppPass
from runs.models.access import digest_of
from runs.serving.rates import TooManyRequests, claim

STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:0;display:grid;min-height:100vh;place-items:center;"
    "background:light-dark(#f6f8fb,#151f2c);color:light-dark(#182433,#dce1e7)}"
    "main{max-width:34rem;margin:1rem;padding:1.5rem 2rem;border-radius:8px;"
    "border:1px solid light-dark(#dce1e7,#25384f);background:light-dark(#fff,#182433)}"
    "h1{font-size:1.15rem;margin:0 0 .5rem}p{margin:.5rem 0;overflow-wrap:anywhere}"
    "a{color:light-dark(#066fd1,#6ea8fe)}"
)
HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
TITLES = {
    401: "Open it from the run's page", 403: "You may not open this", 404: "Not found", 409: "Nothing to open now",
    413: "Too large", 429: "Too many requests", 502: "The app does not answer", 503: "Try again soon",
    504: "The app does not answer",
}  # fmt: skip
log = structlog.get_logger(__name__)

METHODS = frozenset(("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"))
ADDRESS = re.compile(rb"[!-~]*")  # what an address may be written with
CODES = {401: 4401, 403: 4403}  # of a WebSocket's end, by what a request would be answered
FAILED = 1011
NOT_ENTERED = "This address opens from the page of its run, for those who may open terminals there."


class Visit(NamedTuple):
    app: App
    own_origin: str
    headers: Sequence[tuple[bytes, bytes]]
    address: str

    @property
    def run_url(self) -> str:
        return f"{settings.PUBLIC_URL}/runs/{self.app.run}/apps/"


class AppProxy:
    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._connect(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = _Beginning(send)
        headers = list(scope["headers"])
        is_page = "text/html" in value_of(headers, b"accept")
        run_url = ""
        try:
            origin, visit = _visit(scope)
            run_url = visit.run_url
            if scope["path"] == ENTRY_PATH:
                await self._enter(scope, visit, origin, began.send)
                return
            if scope["method"] not in METHODS:
                raise NotPassedOn(405, f"{scope['method']} is not passed on.")
            if problem := why_not_from_here(scope["method"], headers, visit.own_origin):
                raise NotPassedOn(403, problem)
            await self._pass_on(scope, visit, await _pass(visit, origin), receive, began)
        except NotPassedOn as refusal:
            if not began.is_so:
                await send_notice(send, refusal, is_page=is_page, run_url=run_url)

    async def _enter(self, scope: Scope, visit: Visit, origin: ProxyOrigin, send: Send) -> None:
        """Take a ticket for a cookie. Raises NotPassedOn."""
        ticket = parse_qs(_target(scope).partition("?")[2]).get("ticket", [""])
        secret = ""
        if scope["method"] == "GET" and len(ticket) == 1:
            secret = await _in_thread(app_tickets.redeem, ticket[0], visit.app)
        if not secret:
            raise NotPassedOn(401, "This link was used before, or is too old. The run's page makes a new one.")
        name, more = (SECURE_COOKIE, "; Secure") if origin.is_tls else (COOKIE, "")
        headers = [
            (b"location", b"/"),
            (b"set-cookie", f"{name}={secret}; Path=/; HttpOnly; SameSite=Lax{more}".encode()),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"no-referrer"),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _pass_on(
        self, scope: Scope, visit: Visit, entered: tuple[str, AppPass], receive: Receive, began: "_Beginning"
    ) -> None:
        """Raises NotPassedOn."""
        outgoing = _outgoing(scope, visit, entered[1].app_token)
        try:
            async with _connection(visit, *entered) as channel:
                exchange = exchanges.Exchange(channel, began.send, own_origin=visit.own_origin, port=visit.app.port)
                await exchange.run(outgoing, receive)
        except exchanges.NotAnswered as error:
            where = f"Port {visit.app.port} of rank {visit.app.rank}"
            raise NotPassedOn(502, f"{where} does not answer as it should. {error}") from error
        except exchanges.ClientGone:
            return

    async def _connect(self, scope: Scope, receive: Any, send: Any) -> None:
        await receive()  # websocket.connect
        try:
            origin, visit = _visit(scope)
            if value_of(visit.headers, b"origin") != visit.own_origin:
                raise NotPassedOn(403, "The handshake came from another site's page.")
            entered = await _pass(visit, origin)
            path = _target(scope)
            async with _connection(visit, *entered) as channel:
                await exchanges.SocketExchange(channel, receive, send).run(
                    port=visit.app.port,
                    path=path,
                    headers=towards_app(
                        visit.headers,
                        own_origin=visit.own_origin,
                        port=visit.app.port,
                        app_token=entered[1].app_token,
                        is_websocket=True,
                    ),
                    subprotocols=list(scope.get("subprotocols") or []),
                )
            return
        except (NotPassedOn, exchanges.NotAnswered) as error:
            log.info("app.socket_refused", error=str(error))
            code = CODES.get(error.status, FAILED) if isinstance(error, NotPassedOn) else FAILED
        with contextlib.suppress(OSError, RuntimeError):  # the browser has gone
            await send({"type": "websocket.close", "code": code})


@contextlib.asynccontextmanager
async def _connection(visit: Visit, secret: str, granted: AppPass) -> AsyncIterator[Channel]:
    """A connection of the visit's tunnel, closed at the end. Raises NotPassedOn where there is none, or no longer."""
    tunnel = await tunnels().tunnel_of(secret, granted, visit.address)
    channel = await tunnel.connect()
    try:
        yield channel
    finally:
        with contextlib.suppress(TunnelClosed):
            await channel.close()


class _Beginning:
    """State of an answer that may have begun: then it can only break off."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_so = False

    async def send(self, message: ASGIMessage) -> None:
        self.is_so = True
        await self._send(message)


def _visit(scope: Scope) -> tuple[ProxyOrigin, Visit]:
    """Raises NotPassedOn for a host that is no app's."""
    origin = app_tickets.proxy_origin()
    headers = list(scope["headers"])
    app = origin.app_at(value_of(headers, b"host").lower()) if origin is not None else None
    if origin is None or app is None:
        raise NotPassedOn(404, "No app of a run has this address.")
    return origin, Visit(app, origin.origin_of(app), headers, (scope.get("client") or ("", 0))[0])


async def _pass(visit: Visit, origin: ProxyOrigin) -> tuple[str, AppPass]:
    """Return the pass that the cookie brings. Raises NotPassedOn."""
    secret = cookie_of(visit.headers, SECURE_COOKIE if origin.is_tls else COOKIE)
    granted = await _in_thread(app_tickets.pass_of, secret, visit.app) if secret else None
    if granted is None:
        raise NotPassedOn(401, NOT_ENTERED)
    try:
        await database_sync_to_async(claim)(person=granted.user)
    except TooManyRequests as error:
        raise NotPassedOn(429, error.sentence) from error
    return secret, granted


async def _in_thread(function: Any, *arguments: Any) -> Any:
    """Call what asks Valkey. Raises NotPassedOn where that does not answer."""
    try:
        return await database_sync_to_async(function)(*arguments)
    except (RedisError, OSError) as error:
        log.warning("app.valkey", error=str(error))
        raise NotPassedOn(503, "Valkey does not answer. Try again soon.") from error


def _outgoing(scope: Scope, visit: Visit, app_token: str) -> exchanges.Outgoing:
    """Raises NotPassedOn."""
    length = value_of(visit.headers, b"content-length")
    is_chunked = any(name == b"transfer-encoding" for name, _ in visit.headers)
    is_number = length.isascii() and length.isdigit() and len(length) < 19
    if length and not (is_number and int(length) <= exchanges.MAX_BODY_BYTES):
        raise exchanges.TooLarge
    return exchanges.Outgoing(
        method=scope["method"].encode(),
        target=_target(scope).encode("latin1"),
        headers=towards_app(visit.headers, own_origin=visit.own_origin, port=visit.app.port, app_token=app_token),
        length=None if is_chunked else int(length or 0),
    )


def _target(scope: Scope) -> str:
    """Return path and query as the browser wrote them. Raises NotPassedOn for what no address is written with."""
    path, query = scope.get("raw_path") or scope["path"].encode(), scope.get("query_string", b"")
    if not (ADDRESS.fullmatch(path) and ADDRESS.fullmatch(query)):
        raise NotPassedOn(400, "The address has characters that are not encoded.")
    return (path + (b"?" + query if query else b"")).decode("latin1")


# The tunnels of this process: one for each pass that is in use.


class Tunnels:
    def __init__(self) -> None:
        self._open: dict[str, Tunnel] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    async def tunnel_of(self, secret: str, granted: AppPass, address: str) -> Tunnel:
        """Return the open tunnel of the pass, a new one where there is none. Raises TunnelClosed."""
        digest = digest_of(secret)
        async with self._opening.setdefault(digest, asyncio.Lock()):
            known = self._open.get(digest)
            if known is not None and known.closed is None:
                return known
            for closed in [one for one, tunnel in self._open.items() if tunnel.closed is not None]:
                del self._open[closed]
            for unused in [one for one, lock in self._opening.items() if one not in self._open and not lock.locked()]:
                del self._opening[unused]
            tunnel = self._open[digest] = Tunnel(granted)
            await tunnel.begin(address)
            return tunnel


tunnels = one_per_loop(Tunnels)


# Our own answers in the origin of an app: a page without scripts for people, a line of text for programs.


async def send_notice(send: Send, refusal: NotPassedOn, *, is_page: bool, run_url: str = "") -> None:
    status, sentence = refusal.status, refusal.sentence
    title = TITLES.get(status, "Not accepted")
    kind, body = (b"text/plain; charset=utf-8", sentence + "\n")
    if is_page:
        kind = b"text/html; charset=utf-8"
        link = f'<p><a href="{escape(run_url)}">To the run</a></p>' if run_url else ""
        body = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · Trainyard'
            f'</title><meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body><main>'
            f"<h1>{escape(title)}</h1><p>{escape(sentence)}</p>{link}</main></body></html>"
        )
    content = body.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(content)).encode()), *HEADERS]
    if status in (429, 503):
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

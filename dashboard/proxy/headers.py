"""Headers that pass between a browser and an app of a run, in both directions. Plain functions on lists of headers.

The app is a program of users. It learns nothing that opens anything of ours, and it can set nothing that reaches beyond
its own origin.
"""

import re
from collections.abc import Iterable, Sequence

Headers = list[tuple[bytes, bytes]]

LOOPBACK = "127.0.0.1"
COOKIE = "trainyard-app"
SECURE_COOKIE = f"__Host-{COOKIE}"
RESERVED_COOKIE = re.compile(rb"(?:__(?:host|secure)-)?trainyard", re.IGNORECASE)  # ours, the dashboard's too
HOP_BY_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
))  # fmt: skip
# Rewritten below, or of the way between the browser and us; Authorization could be a token of ours.
NOT_TO_THE_APP = HOP_BY_HOP | frozenset((
    b"host", b"cookie", b"origin", b"referer", b"authorization", b"forwarded", b"x-real-ip", b"expect",
    b"content-length",
))  # fmt: skip
FORWARDED = b"x-forwarded-"
# Access for other origins, and what reaches beyond this one: other ports of the host, other hosts of the domain.
NOT_TO_THE_BROWSER = HOP_BY_HOP | frozenset((
    b"date",  # our server sets it
    b"set-cookie", b"location", b"strict-transport-security", b"public-key-pins", b"expect-ct", b"alt-svc",
    b"clear-site-data", b"nel", b"report-to", b"reporting-endpoints", b"referrer-policy",
    b"cross-origin-resource-policy", b"origin-agent-cluster", b"x-accel-redirect",
))  # fmt: skip
CORS = b"access-control-"
OWN: Headers = [
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"origin-agent-cluster", b"?1"),
    (b"content-security-policy", b"frame-ancestors 'self'"),  # beside the app's own: both count
]
HANDSHAKE = b"sec-websocket-"
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


def value_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the header's value if it is there exactly once; else an empty text."""
    found = [value for one, value in headers if one.lower() == name]
    return found[0].decode("latin1") if len(found) == 1 else ""


def cookie_of(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """Return the value of the cookie, empty where there is none, or more than one: none of them is believed then."""
    found = [value for one, _, value in (pair.partition("=") for pair in _cookies(headers)) if one == name]
    return found[0] if len(found) == 1 else ""


def why_not_from_here(method: str, headers: Sequence[tuple[bytes, bytes]], own_origin: str) -> str:
    """Return why a request is not passed on, empty where it may be: the pages of the app itself ask, or a person opens
    an address. The page of another site, another run's app among them, gets nothing done here."""
    names = {name.lower() for name, _ in headers}
    origin = value_of(headers, b"origin")
    if b"origin" in names and origin != own_origin:
        return "The request came from another site's page."
    site = value_of(headers, b"sec-fetch-site")
    if site in ("", "same-origin", "none"):
        is_from_here = site == "same-origin" or origin == own_origin
        return "" if method in SAFE or is_from_here else "The request does not show which page it came from."
    is_navigation = value_of(headers, b"sec-fetch-mode") == "navigate"
    if method in ("GET", "HEAD") and is_navigation and value_of(headers, b"sec-fetch-dest") == "document":
        return ""
    return "The request came from another site's page."


def towards_app(
    headers: Sequence[tuple[bytes, bytes]],
    *,
    own_origin: str,
    port: int,
    app_token: str = "",
    is_websocket: bool = False,
) -> Headers:
    """Return the headers that the app gets. It is addressed as a program of its own machine would address it."""
    local = f"http://{LOOPBACK}:{port}"
    named = _named_by_connection(headers)
    passed: Headers = [(b"host", f"{LOOPBACK}:{port}".encode())]
    begins = (FORWARDED, HANDSHAKE) if is_websocket else FORWARDED
    lowered = [(name.lower(), value) for name, value in headers]
    passed += [one for one in lowered if one[0] not in NOT_TO_THE_APP | named and not one[0].startswith(begins)]
    cookies = [pair for pair in _cookies(headers) if not RESERVED_COOKIE.match(pair.encode("latin1"))]
    if cookies:
        passed.append((b"cookie", "; ".join(cookies).encode("latin1")))
    if value_of(headers, b"origin") == own_origin:
        passed.append((b"origin", local.encode()))
    referrer = value_of(headers, b"referer")
    if referrer == own_origin or referrer.startswith(f"{own_origin}/"):
        passed.append((b"referer", (local + referrer[len(own_origin) :]).encode("latin1")))
    if app_token:
        passed.append((b"authorization", f"token {app_token}".encode()))
    return passed


def towards_browser(headers: Sequence[tuple[bytes, bytes]], *, own_origin: str, port: int) -> Headers:
    named = _named_by_connection(headers)
    passed: Headers = []
    for name, value in headers:
        lower = name.lower()
        if lower == b"set-cookie":
            passed += [(lower, cookie) for cookie in [_own_cookie(value)] if cookie]
        elif lower == b"location":
            passed.append((lower, _own_location(value, own_origin, port)))
        elif lower not in NOT_TO_THE_BROWSER and lower not in named and not lower.startswith(CORS):
            passed.append((lower, value))
    return passed + OWN


def _cookies(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    lines = [value.decode("latin1") for name, value in headers if name.lower() == b"cookie"]
    return [pair.strip() for line in lines for pair in line.split(";") if pair.strip()]


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    lines = [value for name, value in headers if name.lower() == b"connection"]
    return {word.strip().lower() for line in lines for word in line.split(b",")}


def _own_cookie(value: bytes) -> bytes:
    """Return a Set-Cookie of the app for its own host alone; empty for a name that is reserved."""
    pair, *attributes = value.split(b";")
    if RESERVED_COOKIE.match(pair.strip()):
        return b""
    return b";".join([pair, *(one for one in attributes if one.partition(b"=")[0].strip().lower() != b"domain")])


def _own_location(value: bytes, own_origin: str, port: int) -> bytes:
    """An address of the app on its machine is one of its origin."""
    for host in (LOOPBACK, "localhost"):
        local = f"http://{host}:{port}".encode()
        if value == local or value.startswith(local + b"/"):
            return own_origin.encode() + value[len(local) :]
    return value

"""Which headers pass between a browser and an app of a run."""

from __future__ import annotations

import pytest

from dashboard.proxy.headers import OWN, cookie_of, towards_app, towards_browser, why_not_from_here

OWN_ORIGIN = "http://abc-0-6006.localhost:8001"
PORT = 6006


def to_app(*headers: tuple[bytes, bytes], token: str = "") -> dict[bytes, bytes]:
    return dict(towards_app(headers, own_origin=OWN_ORIGIN, port=PORT, app_token=token))


def to_browser(*headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    passed = towards_browser(headers, own_origin=OWN_ORIGIN, port=PORT)
    assert passed[-len(OWN) :] == OWN
    return passed[: -len(OWN)]


def test_the_app_learns_no_cookie_or_token_of_ours() -> None:
    cookies = b"trainyard-session-8000=s1; theirs=1; trainyard-app=s2; __Host-trainyard-app=s3; trainyard-csrf-8000=s4"
    passed = to_app((b"Cookie", cookies), (b"authorization", b"Bearer ty_secret"), (b"accept", b"*/*"))
    assert passed == {b"host": b"127.0.0.1:6006", b"accept": b"*/*", b"cookie": b"theirs=1"}


def test_the_app_is_addressed_as_on_its_own_machine() -> None:
    headers = [
        (b"host", b"abc-0-6006.localhost:8001"),
        (b"origin", OWN_ORIGIN.encode()),
        (b"referer", f"{OWN_ORIGIN}/lab?x=1".encode()),
        (b"x-forwarded-for", b"1.2.3.4"),
        (b"forwarded", b"for=1.2.3.4"),
        (b"connection", b"keep-alive, x-secret"),
        (b"x-secret", b"1"),
        (b"keep-alive", b"5"),
        (b"transfer-encoding", b"chunked"),
        (b"content-length", b"3"),
        (b"upgrade", b"h2c"),
    ]
    assert to_app(*headers, token="t1") == {
        b"host": b"127.0.0.1:6006",
        b"origin": b"http://127.0.0.1:6006",
        b"referer": b"http://127.0.0.1:6006/lab?x=1",
        b"authorization": b"token t1",
    }
    assert b"referer" not in to_app((b"referer", f"{OWN_ORIGIN}.evil.example/".encode()))


def test_the_headers_of_a_handshake_are_made_anew() -> None:
    headers = [(b"sec-websocket-key", b"k"), (b"sec-websocket-extensions", b"permessage-deflate"), (b"x", b"1")]
    passed = towards_app(headers, own_origin=OWN_ORIGIN, port=PORT, is_websocket=True)
    assert dict(passed) == {b"host": b"127.0.0.1:6006", b"x": b"1"}


def test_an_app_sets_nothing_beyond_its_own_origin() -> None:
    passed = to_browser(
        (b"Content-Type", b"text/html"),
        (b"set-cookie", b"a=1; Domain=example.org; Path=/; SameSite=None"),
        (b"set-cookie", b"trainyard-session-8000=evil; Path=/"),
        (b"set-cookie", b" __Host-trainyard-app=evil; Path=/"),
        (b"access-control-allow-origin", b"*"),
        (b"clear-site-data", b'"*"'),
        (b"strict-transport-security", b"max-age=1; includeSubDomains"),
        (b"alt-svc", b'h3=":1"'),
        (b"connection", b"close, x-hop"),
        (b"x-hop", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"content-security-policy", b"script-src 'self'"),
    )
    assert passed == [
        (b"content-type", b"text/html"),
        (b"set-cookie", b"a=1; Path=/; SameSite=None"),
        (b"content-security-policy", b"script-src 'self'"),
    ]


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ("http://127.0.0.1:6006/lab", f"{OWN_ORIGIN}/lab"),
        ("http://localhost:6006", OWN_ORIGIN),
        ("/lab", "/lab"),
        ("http://127.0.0.1:60060/x", "http://127.0.0.1:60060/x"),
    ],
)
def test_a_redirect_to_its_own_machine_leads_to_its_origin(given: str, passed: str) -> None:
    assert to_browser((b"location", given.encode())) == [(b"location", passed.encode())]


NAVIGATION = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize(
    ("method", "headers", "is_passed"),
    [
        ("GET", {}, True),  # no browser of today
        ("GET", NAVIGATION, True),  # a link
        ("GET", NAVIGATION | {"sec-fetch-dest": "iframe"}, False),
        ("POST", NAVIGATION, False),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, False),  # the app of another run
        ("GET", {"sec-fetch-site": "same-origin"}, True),
        ("POST", {"sec-fetch-site": "same-origin", "origin": OWN_ORIGIN}, True),
        ("POST", {"origin": OWN_ORIGIN}, True),
        ("POST", {}, False),
        ("POST", {"origin": "http://abd-0-6006.localhost:8001"}, False),
        ("GET", {"origin": "null"}, False),
    ],
)
def test_the_pages_of_other_sites_get_nothing_done(method: str, headers: dict[str, str], is_passed: bool) -> None:
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert (why_not_from_here(method, given, OWN_ORIGIN) == "") == is_passed


def test_two_cookies_of_one_name_are_none() -> None:
    assert cookie_of([(b"cookie", b"b=1; trainyard-app=x")], "trainyard-app") == "x"
    assert cookie_of([(b"cookie", b"trainyard-app=x"), (b"cookie", b"trainyard-app=y")], "trainyard-app") == ""

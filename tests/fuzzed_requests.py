"""Requests as a hostile person may send them, to the site in one process: what each did is taken back, none may make
the server fail, and a good one works afterwards."""

from __future__ import annotations

import json
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import quote

from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client
from hypothesis import strategies as st

from tests.fuzzing import EXAMPLES, changed, fuzz, mutated

ODD_TEXTS = [
    "", "\0", "a\nb", "x" * 5_000, "-1", "0", "9" * 30, "1e400", "NaN", "inf", "1_0", "\u0661", "\u00e9\u202e", "[]",
    '{"a":' * 2_000, "null", "..", "../../etc/passwd", "%00", "2024-99-99", "9999-12-31T23:59:59+14:00",
    "0001-01-01T00:00:00", "=cmd()", "' OR 1=1 --", "<script>", "a.b.c", "a" * 32, "/", "//evil.example", "http://[",
]  # fmt: skip
texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=30)
# Not Content-Length: one that is no number does not get past the server's reader of HTTP.
HEADERS = [
    "Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Content-Type", "Cookie",
    "Host", "Idempotency-Key", "If-Match", "If-None-Match", "If-Modified-Since", "Last-Event-ID", "Origin", "Range",
    "Referer", "X-Forwarded-For", "X-Forwarded-Proto", "X-HTTP-Method-Override", "X-Requested-With", "X-CSRFToken",
]  # fmt: skip
VALUES = [
    "fetch",
    "bytes=0-",
    "bytes=5-1,-1",
    "bytes=" + "0-1," * 500,
    "*",
    '"a"',
    "a=b; a=c",
    "Bearer ",
    "-1",
    "http://[",
]
headers = st.dictionaries(
    st.sampled_from(HEADERS),
    st.sampled_from(VALUES) | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40),
    max_size=2,
)
KINDS = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b",
         "multipart/form-data", "text/plain; charset=nosuch", "application/octet-stream", ""]  # fmt: skip


class Asked(NamedTuple):
    """One request. ``path`` may have a query."""

    method: str
    path: str
    body: bytes = b""
    kind: str = ""
    headers: Mapping[str, str] = {}


class Sender:
    """Sends requests as one person. ``is_good`` asks for something with the client, and says whether it worked."""

    def __init__(self, client: Client, is_good: Callable[[Client], bool]) -> None:
        client.raise_request_exception = False
        self._client, self._is_good = client, is_good
        self._cookies = {name: one.value for name, one in client.cookies.items()}
        self.answers: Counter[int] = Counter()

    def send(self, asked: Asked) -> Any:
        """Return the answer. Fails for one that is a failure of the server, and shows what was raised."""
        self._client.cookies = SimpleCookie(self._cookies)
        raised: list[str] = []

        def note(sender: object, request: object = None, **_: object) -> None:
            raised.append(repr(sys.exc_info()[1]))

        got_request_exception.connect(note)
        try:
            with transaction.atomic():
                answer: Any = self._client.generic(
                    asked.method, asked.path, asked.body, content_type=asked.kind, headers=asked.headers
                )
                if answer.streaming:
                    b"".join(answer.streaming_content)
                transaction.set_rollback(True)
        finally:
            got_request_exception.disconnect(note)
        assert answer.status_code < 500 or answer.status_code == 503, f"{answer.status_code} {raised} {asked}"[:2000]
        self.answers[answer.status_code] += 1
        if self.answers.total() % 100 == 0:
            self.check_good()
        return answer

    def check_good(self) -> None:
        self._client.cookies = SimpleCookie(self._cookies)
        assert self._is_good(self._client), "a good request does not work any more"

    def fuzz(self, requests: st.SearchStrategy[Asked], what: str, *, min_right: float = 0.01) -> None:
        """Send them all, print what came back, and see that what is right works behind them. ``min_right``: the part
        of them that has to succeed, or the others were refused before anything read them."""
        try:
            fuzz(requests, self.send, what)
        finally:
            print(", ".join(f"{count} x {status}" for status, count in sorted(self.answers.items())))
        self.check_good()
        assert EXAMPLES < 500 or self.answers[200] >= EXAMPLES * min_right, "hardly any of them was nearly right"


def query(pairs: Mapping[str, str]) -> str:
    """Return the pairs as a query or a form's body."""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs.items())


def with_query(path: str, pairs: Mapping[str, str]) -> str:
    return f"{path}?{query(pairs)}" if pairs else path


def multipart(fields: Mapping[str, str], files: Mapping[str, tuple[str, bytes]]) -> tuple[bytes, str]:
    """Return a body and its kind."""
    edge = secrets.token_hex(8)
    parts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    parts += [(f'name="{name}"; filename="{file}"', data) for name, (file, data) in files.items()]
    lines = [
        f"--{edge}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts
    ]
    return b"".join(lines) + f"--{edge}--\r\n".encode(), f"multipart/form-data; boundary={edge}"


def json_bodies(document: Any) -> st.SearchStrategy[bytes]:
    """Return bodies that are nearly this document: values in it replaced, its text changed, or no JSON at all."""
    return changed(document).map(lambda one: json.dumps(one).encode()) | mutated(json.dumps(document).encode())

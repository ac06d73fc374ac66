"""A real HTTP server with the few routes of the product that a node calls."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from trainyard.contract.base import JsonObject
from trainyard.contract.calls import NODE_UNKNOWN
from trainyard.contract.seals import check_mac, http_scope

MAX_AGE_S = 300  # as runs.api.node_auth


class Site:
    """What the server knows, and what it was told."""

    def __init__(self) -> None:
        self.key = ""
        self.join_answer: tuple[int, JsonObject] = (201, {})
        self.joined: list[JsonObject] = []
        self.bundles: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.gone: set[str] = set()
        self.asked: list[list[str]] = []  # …which runs are gone
        self.says_more: list[str] = []
        self.failures = 0  # so many of the next requests are answered 503
        self.refusals: dict[str, int] = {}  # file name -> status
        self.refused: list[int] = []  # what was answered so
        self.num_puts = 0
        self.uploads: dict[str, tuple[str, int, bytes]] = {}  # by key: path, size and what has come
        self.links: dict[str, str] = {}
        self.gained: list[JsonObject] = []
        self.url = ""
        self.knows_node = True
        self.secrets: dict[str, tuple[int, JsonObject]] = {}  # attempt -> status and answer


def is_fresh(site: Site, value: str, method: str, path: str, body: bytes) -> bool:
    """Whether the seal is young. Raises BadSeal for one that does not fit."""
    at, claimed, nonce = value.split(".")
    scope = http_scope(method, path, int(at), nonce)
    check_mac(site.key, scope, hashlib.sha256(body).hexdigest().encode(), claimed)
    return abs(time.time() - int(at)) <= MAX_AGE_S


def refusal(site: Site, value: str, method: str, path: str, body: bytes) -> tuple[int, JsonObject] | None:
    if site.failures:
        site.failures -= 1
        return 503, {}
    if not site.knows_node:
        return 401, {"code": NODE_UNKNOWN}
    return None if is_fresh(site, value, method, path, body) else (401, {})


def taken(site: Site, path: str, document: JsonObject) -> JsonObject:
    """Take what a node says of runs and files, and answer."""
    if path.endswith("/gone-runs"):
        asked = sorted(document["runs"])
        site.asked.append(asked)
        return {"gone": [run for run in asked if run in site.gone] + site.says_more}
    if path.endswith("/gained"):
        site.gained.append(document)
        return {}
    if document["same_as"]:
        site.links[document["path"]] = document["same_as"]
        return {"path": document["path"], "offset": 0, "is_done": True}
    begun = site.uploads.setdefault(document["key"], (document["path"], document["size_bytes"], b""))
    return {"path": begun[0], "offset": len(begun[2]), "is_done": False}


def part_taken(site: Site, path: str, body: bytes) -> JsonObject:
    key, offset = path.split("/")[-2:]
    name, size, data = site.uploads[key]
    assert int(offset) == len(data)
    data += body
    site.uploads[key] = name, size, data
    if len(data) == size:
        site.files[name] = data
    return {"path": name, "offset": len(data), "is_done": len(data) == size}


def handler_for(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._body()
            if self.path.startswith("/api/v1/node/"):
                if not self._is_sealed(body):
                    return
                if self.path.endswith("/secrets"):
                    status, answer = site.secrets.get(self.path.split("/")[-2], (404, {}))
                else:
                    status, answer = 200, taken(site, self.path, json.loads(body))
                self._answer(status, json.dumps(answer).encode())
                return
            site.joined.append(json.loads(body))
            status, answer = site.join_answer
            self._answer(status, json.dumps(answer).encode())

        def do_GET(self) -> None:
            if self._is_sealed(self._body()):
                data = site.bundles.get(self.path.rpartition("/")[2])
                self._answer(404 if data is None else 200, data or b"{}")

        def do_PUT(self) -> None:
            body = self._body()
            site.num_puts += 1
            name = unquote(self.path).partition("/files/")[2]
            if not self._is_sealed(body):
                return
            if "/uploads/" in self.path:
                self._answer(200, json.dumps(part_taken(site, self.path, body)).encode())
            elif name in site.refusals:
                site.refused.append(site.refusals[name])
                self._answer(site.refusals[name], json.dumps({"detail": f"Not {name}."}).encode())
            else:
                site.files[unquote(self.path)] = body
                self._answer(200, b"{}")

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _is_sealed(self, body: bytes) -> bool:
            refused = refusal(site, self.headers["X-Trainyard-Seal"], self.command, unquote(self.path), body)
            if refused is not None:
                self._answer(refused[0], json.dumps(refused[1]).encode())
            return refused is None

        def _answer(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing: the test says what it expects."""

    return Handler


@contextmanager
def serve_site() -> Iterator[Site]:
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_for(site)) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield site
        server.shutdown()
        thread.join()

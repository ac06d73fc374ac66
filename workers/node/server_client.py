"""The node's calls to the server's REST API: joining with a token, everything else sealed with the node's key."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import structlog

from trainyard.spooling.plain_files import open_plain
from workers.contract import Document, http_scope, mac
from workers.node.config import CannotStart, NodeConfig
from workers.node.server_clock import ServerClock

log = structlog.get_logger(__name__)


class JoinRefused(CannotStart):
    """The server does not take this node."""


TIMEOUT = httpx.Timeout(30.0, connect=5.0)
CHUNK_BYTES = 1 << 20
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0"})


def join(server: str, body: Document) -> NodeConfig:
    """Trade the join token for the node's id and key. Raises CannotStart."""
    url = f"{server}/api/v1/nodes/join"
    try:
        response = httpx.post(url, json=body, timeout=TIMEOUT)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CannotStart(f"The server {server} cannot be reached: {error}.") from error
    if response.status_code in (401, 403):
        raise JoinRefused(f"The server {server} refused the join token: {problem_of(response)}")
    if response.status_code != 201:
        raise JoinRefused(f"The server {server} refused this node ({response.status_code}): {problem_of(response)}")
    try:
        answer = response.json()
        return NodeConfig(
            server=server, **{field: str(answer[field]) for field in ("id", "name", "key", "redis_url", "cluster")}
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CannotStart(f"{server} does not answer like a Trainyard server; check the address.") from error


def problem_of(response: httpx.Response) -> str:
    """Return the sentence of a problem+json answer, or the status where it has none."""
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} {response.reason_phrase}."
    return str(detail)


class ServerClient:
    """REST with the node's seal on each request. Every method raises httpx.HTTPError."""

    def __init__(
        self,
        config: NodeConfig,
        keep: Callable[[str], None] | None = None,
        clock: ServerClock | None = None,
    ) -> None:
        """``keep`` writes down where the server is now."""
        self._config = config
        self._clock = clock or ServerClock()
        self._server = config.server
        self._offered = ""
        self._keep = keep or (lambda _: None)

    def offer(self, server: object) -> None:
        """Take note of an address at which the server says that it is. It is tried where the known one is dead, and
        kept once it has answered. Whoever else is there learns seals, which are of no use to them."""
        if isinstance(server, str) and _may_follow(self._server, server):
            self._offered = server.rstrip("/")

    def bundle(self, sha256: str) -> bytes:
        path = f"/api/v1/bundles/{sha256}"
        headers = self._headers("GET", path, hashlib.sha256(b"").hexdigest())
        return self._ask("GET", path, headers).raise_for_status().content

    def put_file(self, run: str, fence: int, name: str, file: Path) -> None:
        path = f"/api/v1/node/runs/{run}/fences/{fence}/files/{name}"
        headers = self._headers("PUT", path, _digest(file))
        headers["Content-Length"] = str(file.stat().st_size)
        self._ask("PUT", path, headers, lambda: _chunks(file)).raise_for_status()

    def begin_upload(self, run: str, fence: int, name: str, size: int, key: str, *, same_as: str = "") -> Document:
        """Announce a file that comes in parts, or that is the one ``same_as``; return ``offset`` and ``is_done``."""
        document = {"path": name, "size_bytes": size, "key": key, "same_as": same_as}
        answer = self._post(f"/api/v1/node/runs/{run}/fences/{fence}/uploads", document)
        found: Document = answer.raise_for_status().json()
        return found

    def put_part(self, run: str, fence: int, key: str, offset: int, data: bytes) -> Document:
        """Send a part of what was begun; return ``offset``, where the next one begins, and ``is_done``."""
        path = f"/api/v1/node/runs/{run}/fences/{fence}/uploads/{key}/{offset}"
        headers = self._headers("PUT", path, hashlib.sha256(data).hexdigest())
        found: Document = self._ask("PUT", path, headers, lambda: data).raise_for_status().json()
        return found

    def tell_gained(self, run: str, fence: int, document: Document) -> None:
        """Say what the working folder holds beside the code."""
        self._post(f"/api/v1/node/runs/{run}/fences/{fence}/gained", document).raise_for_status()

    def gone_runs(self, runs: list[str]) -> set[str]:
        """Return which of these runs the server has deleted."""
        response = self._post("/api/v1/node/gone-runs", {"runs": runs})
        return {str(run) for run in response.raise_for_status().json()["gone"]}

    def answer_dataset(self, dataset: str, answer: Document) -> None:
        """Say what was found in a dataset."""
        self._post(f"/api/v1/node/datasets/{dataset}/answer", answer).raise_for_status()

    def _post(self, path: str, document: Document) -> httpx.Response:
        body = json.dumps(document).encode()
        headers = self._headers("POST", path, hashlib.sha256(body).hexdigest())
        del headers["X-Trainyard-Digest"]  # so small a body is read before the seal is looked at
        headers["Content-Type"] = "application/json"
        return self._ask("POST", path, headers, lambda: body)

    def _ask(
        self, method: str, path: str, headers: dict[str, str], body: Callable[[], bytes | Iterator[bytes]] | None = None
    ) -> httpx.Response:
        """Send it to the server where it is known to be; where nobody is there, to where it says that it is."""
        try:
            return self._ask_at(self._server, method, path, headers, body)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            offered = self._offered
            if not offered or offered == self._server:
                raise
            response = self._ask_at(offered, method, path, headers, body)
            if response.is_success:
                log.info("server.moved", before=self._server, now=offered)
                self._server = offered
                self._keep(offered)
            return response

    def _ask_at(
        self,
        server: str,
        method: str,
        path: str,
        headers: dict[str, str],
        body: Callable[[], bytes | Iterator[bytes]] | None,
    ) -> httpx.Response:
        content = None if body is None else body()
        return httpx.request(method, server + quote(path), headers=headers, content=content, timeout=TIMEOUT)

    def _headers(self, method: str, path: str, body_sha256: str) -> dict[str, str]:
        at, nonce = int(self._clock.now()), secrets.token_hex(16)
        seal = mac(self._config.key, http_scope(method, path, at, nonce), body_sha256.encode())
        return {
            "X-Trainyard-Node": self._config.id,
            "X-Trainyard-Seal": f"{at}.{seal}.{nonce}",
            "X-Trainyard-Digest": body_sha256,  # the server need not read the body to know whose it is
        }


def _may_follow(known: str, offered: str) -> bool:
    """Whether an address means anything here: the loopback of the server's machine is that of this one only where the
    known address is a loopback, too. TLS is not given up."""
    try:
        before, after = urlsplit(known), urlsplit(offered)
    except ValueError:
        return False
    if after.scheme not in ("http", "https") or not after.hostname:
        return False
    is_worse = before.scheme == "https" and after.scheme != "https"
    return not is_worse and (after.hostname not in LOOPBACK or before.hostname in LOOPBACK)


def _chunks(file: Path) -> Iterator[bytes]:
    with open_plain(file) as opened:
        while part := opened.read(CHUNK_BYTES):
            yield part


def _digest(file: Path) -> str:
    with open_plain(file) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()

"""The node's calls to the server's REST API: joining with a token, everything else sealed with the node's key."""

import hashlib
import io
import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

import httpx
import structlog

from trainyard.contract.base import BadDocument, decode, encode
from trainyard.contract.calls import (
    NODE_UNKNOWN,
    DeletedRuns,
    GainedFiles,
    JoinAnswer,
    JoinRequest,
    RunList,
    UploadProgress,
    UploadRequest,
)
from trainyard.contract.inspections import Answer
from trainyard.contract.orders import Locked
from trainyard.contract.seals import http_scope, mac
from trainyard.rest.http_clients import server_client
from trainyard.rest.trust import sentence_of
from workers.transport.node_config import CannotStart, NodeConfig
from workers.transport.trust import ADDRESS, Trust

log = structlog.get_logger(__name__)


class ServerClock:
    """Follows the times in the server's own sealed documents. Until the first one came, it shows this machine's."""

    def __init__(self) -> None:
        self._ahead_s: float | None = None  # of the monotonic clock, which no correction of this machine's time moves

    def set(self, at: float) -> None:
        """Follow ``at`` (Unix seconds), which the server wrote into a document that has just arrived."""
        if at > 0:
            self._ahead_s = at - time.monotonic()

    def now(self) -> float:
        return time.time() if self._ahead_s is None else time.monotonic() + self._ahead_s


T = TypeVar("T")


class JoinRefused(CannotStart):
    """The server does not take this node."""


JSON = {"Content-Type": "application/json"}
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
CHUNK_BYTES = 1 << 20
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0"})


def join(server: str, body: JoinRequest, trust: Trust, *, wants_tls: bool = False) -> NodeConfig:
    """Trade the join token for the node's id and key, and learn whom to trust. Raises CannotStart."""
    try:
        with server_client(timeout=TIMEOUT, verify=trust.verify()) as client:
            response = client.post(f"{server}/api/v1/nodes/join", content=encode(body), headers=JSON)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = sentence_of(error, server) or f"The server {server} cannot be reached: {str(error).rstrip('.')}."
        raise CannotStart(why) from error
    if response.status_code in (401, 403):
        raise JoinRefused(f"The server {server} refused the join token: {problem_of(response)}")
    if response.status_code != 201:
        raise JoinRefused(f"The server {server} refused this node ({response.status_code}): {problem_of(response)}")
    try:
        answer = decode(response.content, JoinAnswer)
    except BadDocument as error:
        raise CannotStart(f"{server} does not answer like a Trainyard server; check the address.") from error
    if urlsplit(server).scheme == "https":  # else anybody on the way could have put others there
        trust.follow(answer.authorities)
    return NodeConfig(
        server=server,
        id=answer.id,
        name=answer.name,
        key=answer.key,
        redis_url=_reachable(answer, trust, wants_tls=wants_tls),
        cluster=answer.cluster,
    )


def _reachable(answer: JoinAnswer, trust: Trust, *, wants_tls: bool) -> str:
    """Return the way to Valkey: its socket where that is on this machine, else the one with TLS where there is one."""
    parts = urlsplit(answer.redis_url)
    is_here = parts.scheme != "unix" or os.access(unquote(parts.path), os.W_OK)
    if answer.redis_tls_url and (wants_tls or not is_here):
        return trust.valkey_url(answer.redis_tls_url)
    return answer.redis_url


def problem_of(response: httpx.Response, otherwise: str = "") -> str:
    """Return the sentence of a problem+json answer; where it has none, the one given or the status."""
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return otherwise or f"{response.status_code} {response.reason_phrase}."


class ServerClient:
    """REST with the node's seal on each request. Every method raises httpx.HTTPError."""

    def __init__(
        self,
        config: NodeConfig,
        store: Callable[[str], None] | None = None,
        clock: ServerClock | None = None,
        trust: Trust | None = None,
    ) -> None:
        """``store`` keeps the server's address of now."""
        self._trust, self._config = trust, config
        self._clock = clock or ServerClock()
        self._server = config.server
        self._offered = ""
        self._store = store or (lambda _: None)

    def offer_address(self, server: str) -> None:
        """Remember an address of the server that it named itself. It is tried where nobody answers at the known one,
        and stored once it has answered. Another program there would see seals, which are of no use to it."""
        if _may_follow(self._server, server):
            self._offered = server.rstrip("/")

    def follow_authorities(self) -> None:
        """Learn which authorities the server trusts now, over a connection that was trusted until now."""
        if self._trust is None or not self._server.startswith("https://"):
            return
        response = self._request("GET", ADDRESS, {})
        if response.is_success and self._trust.follow(response.text):
            log.info("server.authorities_changed")

    def is_known(self) -> bool:
        """Return whether the server still takes this node for one of its own. Only a plain no counts."""
        answer = self._post("/api/v1/node/gone-runs", RunList([]))
        try:
            return answer.status_code != 401 or answer.json()["code"] != NODE_UNKNOWN
        except (ValueError, KeyError, TypeError):
            return True

    def bundle(self, sha256: str) -> bytes:
        path = f"/api/v1/bundles/{sha256}"
        headers = self._headers("GET", path, hashlib.sha256(b"").hexdigest())
        return self._request("GET", path, headers).raise_for_status().content

    def secrets(self, attempt: str) -> Locked:
        """Return the attempt's secrets as they are handed on: this process does not open them."""
        path = f"/api/v1/node/attempts/{attempt}/secrets"
        headers = self._headers("POST", path, hashlib.sha256(b"").hexdigest())
        return _decoded(self._request("POST", path, headers).raise_for_status(), Locked)

    def put_file(self, run: str, fence: int, name: str, file: io.BufferedReader) -> None:
        path = f"/api/v1/node/runs/{run}/fences/{fence}/files/{name}"
        headers = self._headers("PUT", path, hashlib.file_digest(file, "sha256").hexdigest())
        headers["Content-Length"] = str(file.tell())
        self._request("PUT", path, headers, lambda: _chunks(file)).raise_for_status()

    def begin_upload(
        self, run: str, fence: int, name: str, size: int, key: str, *, same_as: str = ""
    ) -> UploadProgress:
        """Announce a file that comes in parts, or that is the one ``same_as``."""
        answer = self._post(f"/api/v1/node/runs/{run}/fences/{fence}/uploads", UploadRequest(name, size, key, same_as))
        return _decoded(answer.raise_for_status(), UploadProgress)

    def put_part(self, run: str, fence: int, key: str, offset: int, data: bytes) -> UploadProgress:
        path = f"/api/v1/node/runs/{run}/fences/{fence}/uploads/{key}/{offset}"
        headers = self._headers("PUT", path, hashlib.sha256(data).hexdigest())
        return _decoded(self._request("PUT", path, headers, lambda: data).raise_for_status(), UploadProgress)

    def report_gained(self, run: str, fence: int, document: GainedFiles) -> None:
        """Report what the working folder holds beside the code."""
        self._post(f"/api/v1/node/runs/{run}/fences/{fence}/gained", document).raise_for_status()

    def gone_runs(self, runs: list[str]) -> set[str]:
        """Return which of these runs the server has deleted."""
        return set(_decoded(self._post("/api/v1/node/gone-runs", RunList(runs)).raise_for_status(), DeletedRuns).gone)

    def answer_dataset(self, dataset: str, answer: Answer) -> None:
        self._post(f"/api/v1/node/datasets/{dataset}/answer", answer).raise_for_status()

    def _post(self, path: str, document: object) -> httpx.Response:
        body = encode(document).encode()
        headers = self._headers("POST", path, hashlib.sha256(body).hexdigest())
        del headers["X-Trainyard-Digest"]  # so small a body is read before the seal is looked at
        headers |= JSON
        return self._request("POST", path, headers, lambda: body)

    def _request(
        self, method: str, path: str, headers: dict[str, str], body: Callable[[], bytes | Iterator[bytes]] | None = None
    ) -> httpx.Response:
        """Send it to the server where it is known to be; where nobody is there, to where it says that it is."""

        def send(server: str) -> httpx.Response:
            content = None if body is None else body()
            verify = True if self._trust is None else self._trust.verify()
            with server_client(timeout=TIMEOUT, verify=verify) as client:
                return client.request(method, server + quote(path), headers=headers, content=content)

        try:
            return send(self._server)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            offered = self._offered
            if not offered or offered == self._server:
                raise
            response = send(offered)
            if response.is_success:
                log.info("server.moved", before=self._server, now=offered)
                self._server = offered
                self._store(offered)
            return response

    def _headers(self, method: str, path: str, body_sha256: str) -> dict[str, str]:
        at, nonce = int(self._clock.now()), secrets.token_hex(16)
        seal = mac(self._config.key, http_scope(method, path, at, nonce), body_sha256.encode())
        return {
            "X-Trainyard-Node": self._config.id,
            "X-Trainyard-Seal": f"{at}.{seal}.{nonce}",
            "X-Trainyard-Digest": body_sha256,  # the server need not read the body to know whose it is
        }


def _decoded(response: httpx.Response, kind: type[T]) -> T:
    """Return the server's answer. Raises httpx.DecodingError, which names the field, for one of another shape."""
    try:
        return decode(response.content, kind)
    except BadDocument as error:
        raise httpx.DecodingError(f"the server's answer: {error}", request=response.request) from error


def _may_follow(known: str, offered: str) -> bool:
    """Return whether an address means anything here: the loopback of the server's machine is that of this one only
    where the known address is a loopback, too. TLS is not given up."""
    try:
        before, after = urlsplit(known), urlsplit(offered)
    except ValueError:
        return False
    if after.scheme not in ("http", "https") or not after.hostname:
        return False
    is_worse = before.scheme == "https" and after.scheme != "https"
    return not is_worse and (after.hostname not in LOOPBACK or before.hostname in LOOPBACK)


def _chunks(file: io.BufferedReader) -> Iterator[bytes]:
    file.seek(0)
    while part := file.read(CHUNK_BYTES):
        yield part

"""The node's calls to the server's REST API: joining with a token, everything else sealed with the node's key."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx

from workers.contract import Document, http_scope, mac
from workers.node.config import CannotStart, NodeConfig


class JoinRefused(CannotStart):
    """The server does not take this node."""


TIMEOUT = httpx.Timeout(30.0, connect=5.0)
CHUNK_BYTES = 1 << 20


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

    def __init__(self, config: NodeConfig) -> None:
        self._config = config

    def bundle(self, sha256: str) -> bytes:
        path = f"/api/v1/bundles/{sha256}"
        headers = self._headers("GET", path, hashlib.sha256(b"").hexdigest())
        response = httpx.get(self._config.server + path, headers=headers, timeout=TIMEOUT)
        return response.raise_for_status().content

    def put_file(self, run: str, fence: int, name: str, file: Path) -> None:
        path = f"/api/v1/node/runs/{run}/fences/{fence}/files/{name}"
        headers = self._headers("PUT", path, _digest(file))
        headers["Content-Length"] = str(file.stat().st_size)
        url = self._config.server + quote(path)
        httpx.put(url, headers=headers, content=_chunks(file), timeout=TIMEOUT).raise_for_status()

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
        return httpx.post(self._config.server + path, headers=headers, content=body, timeout=TIMEOUT)

    def _headers(self, method: str, path: str, body_sha256: str) -> dict[str, str]:
        at = int(time.time())
        seal = mac(self._config.key, http_scope(method, path, at), body_sha256.encode())
        return {
            "X-Trainyard-Node": self._config.id,
            "X-Trainyard-Seal": f"{at}.{seal}",
            "X-Trainyard-Digest": body_sha256,  # the server need not read the body to know whose it is
        }


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while part := opened.read(CHUNK_BYTES):
            yield part


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()

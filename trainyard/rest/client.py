"""Trainyard's REST API from Python: one method a verb, JSON in and out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote

import httpx

from trainyard.spec.problems import Problem

Document = dict[str, Any]
RETRY_AFTER_S = (0.2, 0.8)


class ApiError(RuntimeError):
    """The server said no. ``detail`` is its sentence, ``errors`` has the problems of a spec."""

    def __init__(self, status: int, detail: str, errors: list[Problem]) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors


class Unreachable(RuntimeError):
    """No answer from the server."""


class _Bearer(httpx.Auth):
    """Sends the token, and its successor where there is one: `up` renews that of its machine every hour."""

    def __init__(self, token: str, renew: Callable[[], str] | None) -> None:
        self._token = token
        self._renew = renew

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        response = yield request
        if response.status_code == 401 and self._renew is not None and (token := self._renew()) != self._token:
            self._token = token
            request.headers["Authorization"] = f"Bearer {token}"
            yield request


class Client:
    """Talks to one server as the owner of one token. Raises ApiError and Unreachable."""

    def __init__(
        self, url: str, token: str, *, timeout_s: float = 30.0, renew: Callable[[], str] | None = None
    ) -> None:
        """``renew`` returns the token as it is now: asked once where the server does not take ours any more."""
        self.url = url.rstrip("/")
        try:
            self._http = httpx.Client(
                base_url=f"{self.url}/api/v1/",
                headers={"Accept": "application/json"},
                auth=_Bearer(token, renew),
                timeout=timeout_s,
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Unreachable(f"{url} is no address of a server: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Runs

    def submit(self, document: Document) -> Document:
        return self._json("POST", "runs", json=document)

    def plan(self, document: Document, count: int = 3) -> Document:
        """Return what a run of it would cost, and ``proposals`` that would cost less."""
        return self._json("POST", "plans", params={"count": count}, json=document)

    def submit_job(self, job: str, overrides: Document | None = None) -> Document:
        return self._json("POST", "runs", json={"job": job, "overrides": overrides or {}})

    def runs(self, **filters: Any) -> Iterator[Document]:
        return self._pages("runs", filters)

    def run(self, run: str) -> Document:
        return self._json("GET", f"runs/{_part(run)}")

    def act(self, run: str, verb: str, body: Document | None = None) -> Document:
        """Ask for ``stop``, ``pause``, ``resume``, ``restart``, ``clone``, ``continue`` or ``archive``."""
        return self._json("POST", f"runs/{_part(run)}/{verb}", json=body or {})

    def trace(self, run: str, steps: int, ranks: str | list[int] = "all") -> Document:
        """Have the next steps traced; return ``first_step``, ``last_step`` and ``ranks``."""
        return self._json("POST", f"runs/{_part(run)}/trace", json={"steps": steps, "ranks": ranks})

    def delete(self, run: str) -> None:
        self._json("DELETE", f"runs/{_part(run)}")

    def file_list(self, run: str) -> Document:
        """Return ``items`` (``path``, ``size_bytes`` and ``modified_at`` of what the run has left in its output folder)
        and ``left``: what waits on nodes for a decision."""
        return self._json("GET", f"runs/{_part(run)}/files")

    def send_leftovers(self, run: str) -> Document:
        """Let the nodes send what the run has left in their working folders; return the list as ``file_list`` does."""
        return self._json("POST", f"runs/{_part(run)}/leftovers", json={"decision": "upload"})

    @contextmanager
    def file(self, run: str, path: str, first: int = 0, tag: str = "") -> Iterator[httpx.Response]:
        """Open one file of the run from the byte ``first`` on; the status is 206 where that is what comes, and 200
        where it is all of it since the file is not the one of ``tag`` any more."""
        headers = {"Range": f"bytes={first}-", "If-Range": tag} if first else {}
        headers["Accept-Encoding"] = "identity"
        place = f"runs/{_part(run)}/files/{'/'.join(map(_part, path.split('/')))}"
        try:
            with self._http.stream("GET", place, headers=headers) as response:
                if response.is_error or response.is_redirect:
                    response.read()
                    raise _error_of(response)
                yield response
        except httpx.TransportError as error:
            raise Unreachable(f"cannot read from {self.url}: {error}") from None

    def upload_bundle(self, data: bytes, project: str) -> Document:
        headers = {"Content-Type": "application/gzip"}
        return self._json("POST", "bundles", params={"project": project}, content=data, headers=headers)

    # Runs that were logged outside of Trainyard

    def send_local_run(self, local_id: str, document: Document) -> Document:
        """Make or find the run of a local id; return ``run`` and the ``watermarks`` of its processes."""
        return self._json("PUT", f"runs/local/{_part(local_id)}", json=document)

    def send_frames(self, run: str, data: bytes) -> Document:
        """Send frames of spools, byte for byte; return ``watermarks``. They are numbered: a repeat changes nothing."""
        headers = {"Content-Type": "application/octet-stream"}
        return self._json("POST", f"runs/{_part(run)}/frames", content=data, headers=headers, is_numbered=True)

    # What a run said

    def series(self, run: str) -> Iterator[Document]:
        return self._pages(f"runs/{_part(run)}/series", {})

    def series_csv(self, run: str, **query: Any) -> Iterator[str]:
        """Yield every point as CSV, as it comes: in parts that may end in the middle of a line."""
        try:
            with self._http.stream("GET", f"runs/{_part(run)}/series.csv", params=_given(query)) as response:
                if response.is_error or response.is_redirect:
                    response.read()
                    raise _error_of(response)
                yield from response.iter_text()
        except httpx.TransportError as error:
            raise Unreachable(f"cannot read from {self.url}: {error}") from None

    def checkpoints(self, run: str) -> Iterator[Document]:
        return self._pages(f"runs/{_part(run)}/checkpoints", {})

    def logs(self, run: str, **query: Any) -> Document:
        """Return one page: ``items`` and ``next``."""
        return self._json("GET", f"runs/{_part(run)}/logs", params=_given(query))

    def search_logs(self, run: str, **query: Any) -> Document:
        """Return ``items`` (lines that fit) and ``next``, which is None when all was searched."""
        return self._json("GET", f"runs/{_part(run)}/logs/search", params=_given(query))

    def log_line(self, run: str, line: str) -> Document:
        """Return one line, whole."""
        return self._json("GET", f"runs/{_part(run)}/logs/line", params={"id": line})

    # Data by name

    def datasets(self, **filters: Any) -> Iterator[Document]:
        return self._pages("datasets", filters)

    def dataset(self, dataset: str) -> Document:
        return self._json("GET", f"datasets/{_part(dataset)}")

    def add_dataset(self, document: Document) -> Document:
        return self._json("POST", "datasets", json=document)

    def check_dataset(self, dataset: str) -> Document:
        return self._json("POST", f"datasets/{_part(dataset)}/check", json={})

    def delete_dataset(self, dataset: str) -> None:
        self._json("DELETE", f"datasets/{_part(dataset)}")

    # Where runs go

    def clusters(self) -> Iterator[Document]:
        return self._pages("clusters", {})

    def nodes(self, **filters: Any) -> Iterator[Document]:
        return self._pages("nodes", filters)

    def act_on_node(self, node: str, verb: str) -> Document:
        return self._json("POST", f"nodes/{_part(node)}/{verb}", json={})

    def create_token(self, name: str, expires_at: str | None = None) -> Document:
        return self._json("POST", "tokens", json={"name": name, "expires_at": expires_at})

    def me(self) -> Document:
        return self._json("GET", "me")

    # The wire

    def _pages(self, path: str, filters: Document) -> Iterator[Document]:
        query = _given(filters)
        while True:
            page = self._json("GET", path, params=query)
            yield from page["items"]
            if not page.get("next"):
                return
            query["cursor"] = page["next"]

    def _json(self, method: str, path: str, **request: Any) -> Document:
        headers = dict(request.pop("headers", {}))
        if not request.pop("is_numbered", False) and method == "POST":
            headers["Idempotency-Key"] = uuid.uuid4().hex  # the server does it once, however often we ask
        response = self._answer(method, path, headers=headers, **request)
        if response.is_error or response.is_redirect:
            raise _error_of(response)
        if not response.content:
            return {}
        try:
            found = response.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ApiError(response.status_code, f"{self.url} does not answer as Trainyard does", [])
        return found

    def _answer(self, method: str, path: str, **request: Any) -> httpx.Response:
        for wait_s in (*RETRY_AFTER_S, None):
            try:
                response = self._http.request(method, path, **request)
                if response.status_code not in (502, 503, 504) or wait_s is None:
                    return response
            except (httpx.TransportError, httpx.InvalidURL) as error:
                # Nobody listens: a second try finds the same, unless a server is just being restarted.
                if wait_s is None or isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
                    raise Unreachable(f"cannot reach {self.url}: {error}") from None
            time.sleep(wait_s)
        raise AssertionError("the last try returns or raises")


def _part(text: str) -> str:
    """Return ``text`` as one part of a path: an id that somebody typed must not become another route."""
    return quote(text, safe="")


def _given(query: Document) -> Document:
    return {name: value for name, value in query.items() if value is not None}


def _error_of(response: httpx.Response) -> ApiError:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    errors = [
        Problem(str(one.get("path", "")), str(one.get("message", "")))
        for one in problem.get("errors") or []
        if isinstance(one, dict)
    ]
    detail = problem.get("detail") or problem.get("title") or f"the server answers {response.status_code}"
    return ApiError(response.status_code, str(detail), errors)

"""Trainyard's REST API from Python: one method a verb. What comes back is checked against its type in ``answers``."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

import httpx

from trainyard.contract.base import BadDocument, JsonObject, convert, to_builtins
from trainyard.interchange.study import Study
from trainyard.rest import answers, security_answers, sweep_answers
from trainyard.spec.problems import Problem

RETRY_AFTER_S = (0.2, 0.8)
SUBMIT_S = 150.0  # the server may have to fetch a repository first
QueryValue = str | int | float | bool | Sequence[str] | None

T = TypeVar("T")


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

    def submit(self, spec: JsonObject) -> answers.Run:
        return self._json("POST", "runs", answers.Run, json=spec, timeout=SUBMIT_S)

    def plan(self, spec: JsonObject, count: int = 3) -> answers.Plans:
        """Return what a run of it would cost, and ``proposals`` that would cost less."""
        return self._json("POST", "plans", answers.Plans, params={"count": count}, json=spec)

    def runs(self, **filters: QueryValue) -> Iterator[answers.Run]:
        return self._pages("runs", filters, answers.Run)

    def run(self, run: str) -> answers.Run:
        return self._json("GET", f"runs/{_part(run)}", answers.Run)

    def act(self, run: str, verb: str, body: answers.VerbBody | None = None) -> answers.Run:
        """Ask for ``stop``, ``pause``, ``resume``, ``restart``, ``clone``, ``continue`` or ``archive``."""
        return self._json("POST", f"runs/{_part(run)}/{verb}", answers.Run, json=body or {})

    def resize(self, run: str, nodes: int | None) -> answers.Run:
        """Have an elastic run train on that many nodes; None: on as many as its spec allows."""
        return self._json("POST", f"runs/{_part(run)}/resize", answers.Run, json={"nodes": nodes})

    def trace(self, run: str, steps: int, ranks: str | list[int] = "all") -> answers.Traced:
        """Have the next steps traced."""
        body = {"steps": steps, "ranks": ranks}
        return self._json("POST", f"runs/{_part(run)}/trace", answers.Traced, json=body)

    def rewind(self, run: str, *, to: int, first: int, last: int) -> answers.Run:
        """Have the run go back to step ``to``, and leave out the batches of the steps from ``first`` to ``last``."""
        body = {"to": to, "first": first, "last": last}
        return self._json("POST", f"runs/{_part(run)}/rewind", answers.Run, json=body)

    def exclude_node(self, run: str, node: str) -> answers.Run:
        """Have the run save and go on without the node of this name."""
        return self._json("POST", f"runs/{_part(run)}/exclude-node", answers.Run, json={"node": node})

    def import_sweep(self, sweep: JsonObject, study: Study) -> answers.MadeSweep:
        """Start a sweep whose first trials are those of the study."""
        body = {"sweep": sweep, "study": to_builtins(study)}
        return self._json("POST", "sweeps/import", answers.MadeSweep, json=body, timeout=SUBMIT_S)

    def sweep_study(self, sweep: str) -> Study:
        """Return the finished trials of a sweep."""
        return self._json("GET", f"sweeps/{_part(sweep)}/study", Study, timeout=SUBMIT_S)

    def replay(self, sweep: str, number: int) -> answers.Run:
        """Launch what led to a trial of a population as one run."""
        return self._json("POST", f"sweeps/{_part(sweep)}/trials/{number}/replay", answers.Run)

    def delete(self, run: str) -> None:
        self._json("DELETE", f"runs/{_part(run)}", answers.Empty)

    def file_list(self, run: str) -> answers.FileList:
        """Return what the run has left in its output folder, and what waits on nodes for a decision."""
        return self._json("GET", f"runs/{_part(run)}/files", answers.FileList)

    def send_leftovers(self, run: str) -> answers.FileList:
        """Let the nodes send what the run has left in their working folders; return the list as ``file_list`` does."""
        return self._json("POST", f"runs/{_part(run)}/leftovers", answers.FileList, json={"decision": "upload"})

    @contextmanager
    def file(self, run: str, path: str, first: int = 0, tag: str = "") -> Iterator[httpx.Response]:
        """Open one file of the run from the byte ``first`` on; the status is 206 where that is what comes, and 200
        where it is all of it since the file is not the one of ``tag`` any more."""
        headers = {"Range": f"bytes={first}-", "If-Range": tag} if first else {}
        headers["Accept-Encoding"] = "identity"
        place = f"runs/{_part(run)}/files/{'/'.join(map(_part, path.split('/')))}"
        with self.open(place, headers) as response:
            yield response

    @contextmanager
    def open(self, place: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Open an answer that is read while it comes."""
        try:
            with self._http.stream("GET", place, headers=headers) as response:
                if response.is_error or response.is_redirect:
                    response.read()
                    raise _error_of(response)
                yield response
        except httpx.TransportError as error:
            raise Unreachable(f"cannot read from {self.url}: {error}") from None

    def upload_bundle(self, data: bytes, project: str) -> answers.Bundle:
        headers = {"Content-Type": "application/gzip"}
        return self._json("POST", "bundles", answers.Bundle, params={"project": project}, content=data, headers=headers)

    # Sweeps

    def start_sweep(self, sweep: JsonObject) -> sweep_answers.Sweep:
        return self._json("POST", "sweeps", sweep_answers.Sweep, json=sweep, timeout=SUBMIT_S)

    def preview_sweep(self, sweep: JsonObject) -> sweep_answers.SweepPreview:
        """Return how many trials it would have, what they cost, and which cannot run."""
        return self._json("POST", "sweeps/preview", sweep_answers.SweepPreview, json=sweep, timeout=SUBMIT_S)

    def sweeps(self, **filters: QueryValue) -> Iterator[sweep_answers.SweepItem]:
        return self._pages("sweeps", filters, sweep_answers.SweepItem)

    def sweep(self, sweep: str) -> sweep_answers.Sweep:
        return self._json("GET", f"sweeps/{_part(sweep)}", sweep_answers.Sweep)

    def act_on_sweep(self, sweep: str, verb: str) -> sweep_answers.Sweep:
        """Ask for ``stop``, ``pause`` or ``resume``."""
        return self._json("POST", f"sweeps/{_part(sweep)}/{verb}", sweep_answers.Sweep, json={})

    def add_trial(self, sweep: str, parameters: JsonObject) -> sweep_answers.Sweep:
        return self._json("POST", f"sweeps/{_part(sweep)}/trials", sweep_answers.Sweep, json={"parameters": parameters})

    def promote_trial(self, sweep: str, number: int) -> sweep_answers.Sweep:
        return self._json("POST", f"sweeps/{_part(sweep)}/trials/{number}/promote", sweep_answers.Sweep, json={})

    def launch_trial(self, sweep: str, number: int | None = None, seeds: int = 3) -> sweep_answers.Launched:
        """Launch a trial's parameters (None: the best one's) as so many runs with different seeds."""
        body = {"number": number, "seeds": seeds}
        return self._json("POST", f"sweeps/{_part(sweep)}/launch", sweep_answers.Launched, json=body)

    # Runs that were logged outside of Trainyard

    def send_local_run(self, local_id: str, document: answers.LocalRunBody) -> answers.LocalRun:
        """Make or find the run of a local id; return ``run`` and the ``watermarks`` of its processes."""
        return self._json("PUT", f"runs/local/{_part(local_id)}", answers.LocalRun, json=document)

    def send_frames(self, run: str, data: bytes) -> answers.Watermarks:
        """Send frames of spools, byte for byte. They are numbered: a repeat changes nothing."""
        headers = {"Content-Type": "application/octet-stream"}
        return self._json(
            "POST", f"runs/{_part(run)}/frames", answers.Watermarks, content=data, headers=headers, is_numbered=True
        )

    # What a run logged

    def series(self, run: str) -> Iterator[answers.Series]:
        return self._pages(f"runs/{_part(run)}/series", {}, answers.Series)

    def series_csv(self, run: str, **query: QueryValue) -> Iterator[str]:
        """Yield every point as CSV, as it comes: in parts that may end in the middle of a line."""
        return self._texts(f"runs/{_part(run)}/series.csv", query)

    def attempts(self, run: str) -> Iterator[answers.Attempt]:
        return self._pages(f"runs/{_part(run)}/attempts", {}, answers.Attempt)

    def checkpoints(self, run: str) -> Iterator[answers.Checkpoint]:
        return self._pages(f"runs/{_part(run)}/checkpoints", {}, answers.Checkpoint)

    def logs(self, run: str, **query: QueryValue) -> answers.LogPage:
        return self._json("GET", f"runs/{_part(run)}/logs", answers.LogPage, params=_given(query))

    def search_logs(self, run: str, **query: QueryValue) -> answers.FoundLines:
        return self._json("GET", f"runs/{_part(run)}/logs/search", answers.FoundLines, params=_given(query))

    def log_line(self, run: str, line: str) -> answers.LogLine:
        """Return one line, whole."""
        return self._json("GET", f"runs/{_part(run)}/logs/line", answers.LogLine, params={"id": line})

    # Data by name

    def datasets(self, **filters: QueryValue) -> Iterator[answers.Dataset]:
        return self._pages("datasets", filters, answers.Dataset)

    def dataset(self, dataset: str) -> answers.DatasetWithFacts:
        return self._json("GET", f"datasets/{_part(dataset)}", answers.DatasetWithFacts)

    def add_dataset(self, document: answers.DatasetBody) -> answers.DatasetWithFacts:
        return self._json("POST", "datasets", answers.DatasetWithFacts, json=document)

    def check_dataset(self, dataset: str) -> answers.DatasetWithFacts:
        return self._json("POST", f"datasets/{_part(dataset)}/check", answers.DatasetWithFacts, json={})

    def delete_dataset(self, dataset: str) -> None:
        self._json("DELETE", f"datasets/{_part(dataset)}", answers.Empty)

    # Where runs go

    def clusters(self) -> Iterator[answers.Cluster]:
        return self._pages("clusters", {}, answers.Cluster)

    def nodes(self, **filters: QueryValue) -> Iterator[answers.Node]:
        return self._pages("nodes", filters, answers.Node)

    def act_on_node(self, node: str, verb: str) -> answers.Node:
        return self._json("POST", f"nodes/{_part(node)}/{verb}", answers.Node, json={})

    def check_cluster(self, cluster: str) -> answers.Preflight:
        """Have the cluster's nodes checked; ``preflight`` returns what they found once they have."""
        return self._json("POST", f"clusters/{_part(cluster)}/preflight", answers.Preflight, json={})

    def check_run(self, run: str) -> answers.Preflight:
        """Have the nodes of the run's newest attempt checked."""
        return self._json("POST", f"runs/{_part(run)}/preflight", answers.Preflight, json={})

    def preflights(self, cluster: str) -> Iterator[answers.Preflight]:
        """Yield the preflights of a cluster that somebody asked for, the newest first."""
        return self._pages(f"clusters/{_part(cluster)}/preflights", {}, answers.Preflight)

    def create_token(self, name: str, expires_at: str | None = None) -> answers.NewToken:
        return self._json("POST", "tokens", answers.NewToken, json={"name": name, "expires_at": expires_at})

    def secrets(self, project: str | None) -> Iterator[security_answers.Secret]:
        """Yield the secrets of a project, or without one our own: everything but their values."""
        return self._pages(_secrets_of(project), {}, security_answers.Secret)

    def set_secret(self, name: str, value: str, project: str | None) -> None:
        self._json("PUT", f"{_secrets_of(project)}/{_part(name)}", answers.Empty, json={"value": value})

    def delete_secret(self, name: str, project: str | None) -> None:
        self._json("DELETE", f"{_secrets_of(project)}/{_part(name)}", answers.Empty)

    def rotate_secrets_key(self) -> security_answers.RotatedKey:
        return self._json("POST", "secrets/rotate-key", security_answers.RotatedKey, json={}, timeout=SUBMIT_S)

    def audit(self, limit: int, **filters: QueryValue) -> list[security_answers.Act]:
        """Return the newest acts."""
        return list(islice(self._pages("audit", {**filters, "limit": min(limit, 200)}, security_answers.Act), limit))

    def verify_audit(self) -> security_answers.Verdict:
        return self._json("GET", "audit/verify", security_answers.Verdict, timeout=SUBMIT_S)

    def export_audit(self, form: str, **filters: QueryValue) -> Iterator[str]:
        """Yield the export as it comes: in parts that may end in the middle of a line."""
        return self._texts("audit/export", {**filters, "format": form})

    def me(self) -> answers.Me:
        return self._json("GET", "me", answers.Me)

    # The wire

    def call(self, method: str, path: str, kind: type[T], **request: Any) -> T:
        """Send a request of a family of calls that has a module of its own, and return the checked answer."""
        return self._json(method, path, kind, **request)

    def _pages(self, path: str, filters: Mapping[str, QueryValue], kind: type[T]) -> Iterator[T]:
        query = _given(filters)
        while True:
            page = self._json("GET", path, answers.Page[kind], params=query)  # type: ignore[valid-type]
            yield from page["items"]
            following = page.get("next")
            if not following:
                return
            query["cursor"] = following

    def _texts(self, path: str, query: Mapping[str, QueryValue]) -> Iterator[str]:
        try:
            with self._http.stream("GET", path, params=_given(query)) as response:
                if response.is_error or response.is_redirect:
                    response.read()
                    raise _error_of(response)
                yield from response.iter_text()
        except httpx.TransportError as error:
            raise Unreachable(f"cannot read from {self.url}: {error}") from None

    def _json(self, method: str, path: str, kind: type[T], **request: Any) -> T:
        headers = dict(request.pop("headers", {}))
        if not request.pop("is_numbered", False) and method == "POST":
            headers["Idempotency-Key"] = uuid.uuid4().hex  # the server does it once, however often we ask
        response = self._answer(method, path, headers=headers, **request)
        if response.is_error or response.is_redirect:
            raise _error_of(response)
        try:
            return _checked(response.json() if response.content else {}, kind)
        except ValueError as error:
            why = f": {error}" if isinstance(error, BadDocument) else ""
            raise ApiError(response.status_code, f"{self.url} does not answer as Trainyard does{why}", []) from None

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


def _secrets_of(project: str | None) -> str:
    return f"projects/{_part(project)}/secrets" if project else "me/secrets"


def _part(text: str) -> str:
    """Return ``text`` as one part of a path: an id that somebody typed must not become another route."""
    return quote(text, safe="")


def _checked(found: Any, kind: type[T]) -> T:
    """Return the answer itself, with the fields that the type does not name, once it has those that the type names.
    Raises BadDocument."""
    convert(found, kind)
    return cast(T, found)


def _given(query: Mapping[str, QueryValue]) -> dict[str, QueryValue]:
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

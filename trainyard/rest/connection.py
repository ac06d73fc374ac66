"""Connection of the client to the server: token, retries, errors, and answers that are checked."""

import time
import uuid
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar, cast

import httpx

from trainyard.contract.base import BadDocument, convert
from trainyard.rest import answers
from trainyard.rest.http_clients import server_client
from trainyard.rest.trust import authorities_file, context_of, sentence_of
from trainyard.spec.problems import Problem

RETRY_AFTER_S = (0.2, 0.8)
LONGEST_WAIT_S = 10.0
PATIENCE_S = 20.0  # with a first try that goes on: longer than the server needs to see that its machine is gone
LONG_ANSWER_S = 600.0
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
    """The server does not answer."""


class Bearer(httpx.Auth):
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


class Connection:
    """Asks one server as the owner of one token. Raises ApiError and Unreachable."""

    def __init__(
        self, url: str, token: str, *, timeout_s: float = 30.0, renew: Callable[[], str] | None = None
    ) -> None:
        """``renew`` returns the token as it is now: asked once where the server does not take ours any more."""
        self.url = url.rstrip("/")
        try:
            self._http = server_client(
                verify=context_of(authorities_file(self.url)),
                base_url=f"{self.url}/api/v1/",
                headers={"Accept": "application/json"},
                auth=Bearer(token, renew),
                timeout=timeout_s,
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Unreachable(f"{url} is no address of a server: {error}") from None
        except OSError as error:
            raise Unreachable(f"the authorities for {url} cannot be read: {error}") from None

    def close_at_end(self) -> None:
        """Close it when nobody has it any more: where a ``with`` statement would be in the way."""
        weakref.finalize(self, self._http.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, kind: type[T], **request: Any) -> T:
        """Send a request, and return the checked answer itself, with the fields that ``kind`` does not name."""
        headers = dict(request.pop("headers", {}))
        if not request.pop("is_numbered", False) and method == "POST":
            headers["Idempotency-Key"] = uuid.uuid4().hex  # the server does it once, however often we ask
        response = self._answer(method, path, headers=headers, **request)
        try:
            found = response.json() if response.content else {}
            convert(found, kind)
        except ValueError as error:
            why = f": {error}" if isinstance(error, BadDocument) else ""
            raise ApiError(response.status_code, f"{self.url} does not answer as Trainyard does{why}", []) from None
        return cast(T, found)

    @contextmanager
    def open(
        self, place: str, headers: Mapping[str, str] | None = None, query: Mapping[str, QueryValue] | None = None
    ) -> Iterator[httpx.Response]:
        """Open an answer that is read while it comes."""
        try:
            with self._http.stream("GET", place, headers=headers, params=given(query or {})) as response:
                if response.is_error or response.is_redirect:
                    response.read()
                    raise error_of(response)
                yield response
        except httpx.TransportError as error:
            raise Unreachable(f"cannot read from {self.url}: {str(error).rstrip('.')}") from None

    def pages(self, path: str, kind: type[T], **filters: QueryValue) -> Iterator[T]:
        """Yield the items of a list, which is asked for page by page."""
        query = given(filters)
        while True:
            page = self.call("GET", path, answers.Page[kind], params=query)  # type: ignore[valid-type]
            yield from page["items"]
            following = page.get("next")
            if not following:
                return
            query["cursor"] = following

    def texts(self, path: str, **query: QueryValue) -> Iterator[str]:
        """Yield an answer as it comes: in parts that may end in the middle of a line."""
        with self.open(path, query=query) as response:
            yield from response.iter_text()

    def whole(self, path: str, **query: QueryValue) -> bytes:
        return self._answer("GET", path, params=given(query), timeout=LONG_ANSWER_S).content

    def _answer(self, method: str, path: str, **request: Any) -> httpx.Response:
        waits, patient_until = list(RETRY_AFTER_S), time.monotonic() + PATIENCE_S
        while True:
            wait_s = waits.pop(0) if waits else None
            try:
                response = self._http.request(method, path, **request)
                asked = response.headers.get("Retry-After", "") if response.status_code in (409, 429) else ""
                # What we sent first goes on, or its machine is gone: the server knows which after a while.
                is_going_on = response.status_code == 409 and asked and time.monotonic() < patient_until
                waits = list(RETRY_AFTER_S) if is_going_on else waits
                if not is_going_on and (response.status_code not in (429, 502, 503, 504) or wait_s is None):
                    if response.is_error or response.is_redirect:
                        raise error_of(response)
                    return response
                wait_s = max(wait_s or 0.0, min(float(asked), LONGEST_WAIT_S) if asked.isdecimal() else 0.0)
            except (httpx.TransportError, httpx.InvalidURL) as error:
                # Nobody listens: a second try finds the same, unless a server is just being restarted.
                if wait_s is None or isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
                    why = sentence_of(error, self.url) or f"cannot reach {self.url}: {error}"
                    raise Unreachable(why.rstrip(".")) from None
            time.sleep(wait_s)


def given(query: Mapping[str, QueryValue]) -> dict[str, QueryValue]:
    return {name: value for name, value in query.items() if value is not None}


def error_of(response: httpx.Response) -> ApiError:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    found = [one for one in problem.get("errors") or [] if isinstance(one, dict)]
    errors = [Problem(str(one.get("path", "")), str(one.get("message", ""))) for one in found]
    detail = problem.get("detail") or problem.get("title") or f"the server answers {response.status_code}"
    return ApiError(response.status_code, str(detail), errors)

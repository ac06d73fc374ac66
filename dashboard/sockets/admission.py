"""Permission to open a socket and to keep it open.

The sockets that wait are checked as one batch, in a few queries however many there are: when all pages reconnect at
once, and every few seconds for the sockets that are open. What a person may see is decided in runs.rights.access.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import structlog
from channels.db import database_sync_to_async
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.db import DatabaseError
from django.http.request import split_domain_port, validate_host

from dashboard.http.credentials import Credential, users_of
from runs.models import Run
from runs.people.identity import second_factor
from runs.rights.access import (
    Permission,
    Sight,
    has_scope,
    projects_of,
    reach_by_token,
    sight_by_token,
    sights,
    why_not_enter,
)
from runs.serving import open_sockets

log = structlog.get_logger(__name__)

EVERY_S = 4.0  # a role that is revoked closes the socket within five seconds
BATCH = 250  # sockets; SQLite bounds the variables of a statement
UNAVAILABLE, UNKNOWN_USER, FORBIDDEN, NOT_FOUND = 1011, 4401, 4403, 4404


@dataclass(frozen=True)
class AdmissionQuestion:
    credential: Credential
    run_id: str | None  # None: a socket that is about no run
    is_session: bool = False  # it runs commands beside the run's ranks


T = TypeVar("T")
Answer = Sight | int  # what its person sees, or the code with which the socket is closed


class Subscriber(Protocol):
    """A socket that was admitted or wants to be."""

    question: AdmissionQuestion

    def stay(self, sight: Sight) -> None:
        """Let the socket stay; its person sees this now."""

    def end(self, code: int) -> None:
        """Close the socket."""


def answers(questions: Sequence[AdmissionQuestion]) -> list[Answer]:
    """Return for each question what the person sees, or the code with which the socket is closed."""
    users = users_of(question.credential for question in questions)
    known = sights(list({user.pk: user for user in users.values()}.values()))
    projects = projects_of(Run, {question.run_id for question in questions if question.run_id is not None})
    without_factor = second_factor.missing(list(users.values()))

    def answer(question: AdmissionQuestion) -> Answer:
        user = users.get(question.credential)
        if user is None:
            return UNKNOWN_USER
        if user.pk in without_factor:
            return FORBIDDEN
        project, sight = projects.get(question.run_id or ""), sight_by_token(user, known[user.pk])
        if not has_scope(user, Permission.RUNS_READ):
            is_there = question.run_id is None or reach_by_token(user, known[user.pk]).sees(project)
            return FORBIDDEN if is_there else NOT_FOUND
        if question.run_id is None:
            return sight
        if not sight.sees(project):
            return NOT_FOUND
        return FORBIDDEN if question.is_session and why_not_enter(user, question.run_id) else sight

    return [answer(question) for question in questions]


class Admission:
    """Admission of the process's sockets. ``admit`` checks a new one, which is checked again until it ``leave``s."""

    def __init__(self) -> None:
        self._admitted: set[Subscriber] = set()
        self._waiting: list[tuple[AdmissionQuestion, asyncio.Future[Answer]]] = []
        self._answering: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None

    async def admit(self, subscriber: Subscriber) -> Answer:
        """Return what the subscriber's person sees, or the code to close with."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((subscriber.question, answer))
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer())
        found = await answer
        if isinstance(found, Sight):
            self._admitted.add(subscriber)
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self._check_everybody())
        return found

    def leave(self, subscriber: Subscriber) -> None:
        self._admitted.discard(subscriber)
        if not self._admitted and self._checking is not None:
            self._checking.cancel()
            self._checking = None

    async def _answer(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            found = await _answers([question for question, _ in batch])
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():
                    answer.set_result(one)

    async def _check_everybody(self) -> None:
        while True:
            await asyncio.to_thread(open_sockets.write, len(self._admitted))
            await asyncio.sleep(EVERY_S)
            everybody = list(self._admitted)
            for start in range(0, len(everybody), BATCH):
                await self._check(everybody[start : start + BATCH])

    async def _check(self, subscribers: list[Subscriber]) -> None:
        found = await _answers([subscriber.question for subscriber in subscribers])
        for subscriber, one in zip(subscribers, found, strict=True):
            if isinstance(one, Sight):
                subscriber.stay(one)
            else:
                subscriber.end(one)


async def _answers(questions: Sequence[AdmissionQuestion]) -> Sequence[Answer]:
    try:
        found: list[Answer] = await database_sync_to_async(answers)(questions)
        return found
    except DatabaseError as error:  # nobody can say who may see what: the pages reconnect until somebody can
        log.warning("socket.database", error=str(error))
    except Exception:  # without an answer a socket would stay open for whoever lost their role
        log.exception("socket.failed")
    return [UNAVAILABLE] * len(questions)


def one_per_loop(make: Callable[[], T]) -> Callable[[], T]:
    """Return what gives the process's own. (A process has one event loop; tests have one each.)"""
    made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()
    return lambda: made.setdefault(asyncio.get_running_loop(), make())


admission = one_per_loop(Admission)


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether the page at ``origin`` was served under the Host that the handshake is for, and the Host is ours.

    The port counts: what another program serves on this machine is another site.
    """
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not host:
        return False
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, [*settings.ALLOWED_HOSTS]) and parts.netloc.lower() == host.lower()


class SameOrigin:
    """ASGI middleware that refuses a handshake without an Origin, or from another site's page."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin1") for name, value in scope.get("headers", [])}
        if is_same_origin(headers.get(b"origin", ""), headers.get(b"host", "")):
            await self.application(scope, receive, send)
        else:
            await WebsocketDenier()(scope, receive, send)

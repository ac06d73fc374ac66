"""Who may open a socket, and who may stay: asked for all of them together, a few queries however many there are.

A reconnect storm and the look at everybody every few seconds cost the same: the sockets that wait are taken as one
batch. What one may see is decided in runs.access.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

import structlog
from channels.db import database_sync_to_async
from django.db import DatabaseError

from dashboard.http.credentials import Credential, visitors_of
from runs.access import Sight, projects_of_runs, sights

log = structlog.get_logger(__name__)

EVERY_S = 4.0  # a role that is revoked closes the socket within five seconds
BATCH = 250  # sockets; SQLite bounds the variables of a statement
UNAVAILABLE, UNKNOWN_VISITOR, NOT_FOUND = 1011, 4401, 4404


@dataclass(frozen=True)
class Question:
    credential: Credential
    run_id: str | None  # None: a socket that is about no run


Answer = Sight | int  # what its person sees, or the code with which the socket is closed


class Guest(Protocol):
    """A socket, as the door knows it."""

    question: Question

    def stay(self, sight: Sight) -> None:
        """It may stay; its person sees this now."""

    def end(self, code: int) -> None:
        """It must go."""


def answers(questions: Sequence[Question]) -> list[Answer]:
    """Return who may come in, and who not and why."""
    visitors = visitors_of(question.credential for question in questions)
    known = sights(list({user.pk: user for user in visitors.values()}.values()))
    projects = projects_of_runs({question.run_id for question in questions if question.run_id is not None})
    found: list[Answer] = []
    for question in questions:
        user = visitors.get(question.credential)
        if user is None:
            found.append(UNKNOWN_VISITOR)
        elif question.run_id is None or known[user.pk].sees(projects.get(question.run_id)):
            found.append(known[user.pk])
        else:
            found.append(NOT_FOUND)
    return found


class Door:
    """One per process. ``admit`` answers a newcomer; whoever came in is looked at again until they ``leave``."""

    def __init__(self) -> None:
        self._inside: set[Guest] = set()
        self._knocking: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._answering: asyncio.Task[None] | None = None
        self._round: asyncio.Task[None] | None = None

    async def admit(self, guest: Guest) -> Answer:
        """Return what the guest's person sees, or the code to close with. Raises DatabaseError and what else keeps
        anybody from saying who may see what."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._knocking.append((guest.question, answer))
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer())
        found = await answer
        if isinstance(found, Sight):
            self._inside.add(guest)
            if self._round is None or self._round.done():
                self._round = asyncio.create_task(self._look_around())
        return found

    def leave(self, guest: Guest) -> None:
        self._inside.discard(guest)
        if not self._inside and self._round is not None:
            self._round.cancel()
            self._round = None

    async def _answer(self) -> None:
        while self._knocking:
            batch, self._knocking = self._knocking[:BATCH], self._knocking[BATCH:]
            try:
                found = await database_sync_to_async(answers)([question for question, _ in batch])
            except Exception as error:  # the waiting ones raise it, and their sockets log it
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():
                    answer.set_result(one)

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            everybody = list(self._inside)
            for start in range(0, len(everybody), BATCH):
                await self._look_at(everybody[start : start + BATCH])

    async def _look_at(self, guests: list[Guest]) -> None:
        try:
            found = await database_sync_to_async(answers)([guest.question for guest in guests])
        except DatabaseError as error:  # nobody can say who may see what: the pages reconnect until somebody can
            log.warning("socket.database", error=str(error))
            found = [UNAVAILABLE] * len(guests)
        except Exception:  # without this look a socket would stay open for whoever lost their role
            log.exception("socket.failed")
            found = [UNAVAILABLE] * len(guests)
        for guest, one in zip(guests, found, strict=True):
            if isinstance(one, Sight):
                guest.stay(one)
            else:
                guest.end(one)


_doors: WeakKeyDictionary[asyncio.AbstractEventLoop, Door] = WeakKeyDictionary()


def the_door() -> Door:
    """Return the process's door. (A process has one event loop; tests have one each.)"""
    return _doors.setdefault(asyncio.get_running_loop(), Door())

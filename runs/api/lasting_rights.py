"""The right to an answer that takes long to send: asked for again every few seconds, as that to a socket is."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

import structlog
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from runs.api.auth import actor
from runs.models import User
from runs.rights.access import Forbidden, as_of_now

log = structlog.get_logger(__name__)

EVERY_S = 4.0  # whoever loses the right gets nothing more within five seconds

T = TypeVar("T")


class RightLost(Exception):
    """Nothing more is sent: the connection breaks, so that nobody takes the part for the whole."""


class LastingRight:
    """The right of whoever sent the request to what ``ask`` lets the person have. ``ask`` raises as loaders do."""

    def __init__(self, request: HttpRequest, ask: Callable[[User], object]) -> None:
        self._request = request
        self._user = actor(request)
        self._ask = ask
        self._asked_at = time.monotonic()

    def check(self) -> None:
        """Ask again if it is time. Raises RightLost."""
        if time.monotonic() - self._asked_at < EVERY_S:
            return
        try:
            self._ask(self._now())
        except (PermissionDenied, Http404) as error:
            log.info("answer.broken_off", user=self._user.pk, path=self._request.path, reason=str(error))
            raise RightLost(str(error)) from error
        self._asked_at = time.monotonic()

    def _now(self) -> User:
        session = self._request.session
        if self._user.token is None and not session.exists(str(session.session_key)):
            raise Forbidden("The session has ended.")
        return as_of_now(self._user)

    def over(self, parts: Iterable[T]) -> Generator[T]:
        """Yield the parts for as long as the right lasts. Raises RightLost."""
        for part in parts:
            self.check()
            yield part

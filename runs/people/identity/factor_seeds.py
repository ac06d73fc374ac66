"""Seeds of second factors, in envelopes that are bound to the person: of an authenticator app, and of recovery codes.

allauth asks for a seed by its stored text alone. So whoever has it check a code says first whose seeds may be opened;
the key management service is asked then, and not while a transaction keeps others out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from allauth.mfa.models import Authenticator

from runs.models import User
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.sealed import FACTOR_FIELDS, factor_place, open_text, seal_text


class OpenSeeds:
    """Those of one person, by their stored texts."""

    def __init__(self, user_id: int) -> None:
        self._place, self._seeds = factor_place(user_id), dict[str, str]()

    def of(self, text: str) -> str:
        """Raises KeyProblem."""
        if text not in self._seeds:
            self._seeds[text] = open_text(self._place, text)
        return self._seeds[text]


_open: ContextVar[OpenSeeds | None] = ContextVar("trainyard_open_seeds", default=None)


def seal_seed(user: User, seed: str) -> str:
    """Raises KeyProblem."""
    return seal_text(factor_place(user.pk), seed)


def open_seed(user: User, text: str) -> str:
    """Raises KeyProblem."""
    return open_text(factor_place(user.pk), text)


@contextmanager
def seeds_of(user: User) -> Iterator[None]:
    """Let allauth read the person's seeds inside. Raises KeyProblem where one does not open."""
    found = OpenSeeds(user.pk)
    for row in Authenticator.objects.filter(user=user):
        for field in FACTOR_FIELDS:
            if text := row.data.get(field):
                found.of(text)
    token = _open.set(found)
    try:
        yield
    finally:
        _open.reset(token)


def read_seed(text: str) -> str:
    """Return the seed that is stored so, of the person whose seeds are open. Raises KeyProblem."""
    found = _open.get()
    if found is None:
        raise KeyProblem("Nobody's second factors are being checked now.")
    return found.of(text)

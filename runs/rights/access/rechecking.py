"""Rights that change while a request is being answered: asked for again, or held still.

A request checks its rights when it begins. What takes long asks again before it writes (``require_still``) or while it
sends (``as_of_now``); what gives others a right checks and writes in one transaction, into which no change of anybody's
rights falls (``with_rights_held``). What cannot be undone, and what opens doors for good, asks in its action for a
proof that the person is there: their sign-in or second factor of a short while ago (``require_presence``).
"""

import functools
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connection, transaction
from django.utils import timezone

from runs.models import Project, Token, User
from runs.rights.access.permissions import Forbidden, Wanted
from runs.rights.access.roles import require

FRESH_S = 15 * 60.0
RIGHTS_LOCK = 0x7269676874  # PostgreSQL's advisory locks have numbers

P = ParamSpec("P")
R = TypeVar("R")


def as_of_now(user: User) -> User:
    """Return the person, and the token that they act by, as the database has them now. Raises Forbidden where one of
    the two opens nothing any more."""
    found = User.objects.filter(pk=user.pk, is_active=True).first()
    if found is None:
        raise Forbidden(f"The account {user} was disabled.")
    if user.token is not None:
        token = Token.objects.filter(pk=user.token.pk, revoked_at=None).first()
        if token is None or (token.expires_at is not None and token.expires_at <= timezone.now()):
            raise Forbidden(f"The token {user.token.name} was revoked, or is too old.")
        found.token = token
    found.proved_at = user.proved_at
    return found


def require_still(user: User, project: Project, wanted: Wanted) -> None:
    """Raise NotFound or Forbidden for who has lost this right since the request began."""
    require(as_of_now(user), project, wanted)


def with_rights_held(act: Callable[P, R]) -> Callable[P, R]:
    """Have the action check and write in one transaction. No other change of rights falls into it, and its ``actor`` is
    read anew. So nobody hands out a right while it is being taken from them."""

    @functools.wraps(act)
    def held(*args: P.args, **kwargs: P.kwargs) -> R:
        with transaction.atomic():
            hold_rights()
            if isinstance(actor := kwargs.get("actor"), User):
                kwargs["actor"] = as_of_now(actor)
            return act(*args, **kwargs)

    return held


def hold_rights() -> None:
    """Wait for other transactions that do this. SQLite's have one writer at a time from their beginning on."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [RIGHTS_LOCK])


class ProofNeeded(Forbidden):
    """The person may do it, once they proved again who they are."""


def is_present(user: User) -> bool:
    """Return whether they proved who they are a short while ago. A command of the server acts without session and
    token."""
    if user.token is not None:
        return False
    return user.proved_at is None or abs(time.time() - user.proved_at) < FRESH_S  # a clock may have been put back


def require_presence(user: User) -> None:
    """Raise Forbidden for a token, ProofNeeded for a session whose proof is old."""
    if user.token is not None:
        raise Forbidden("This is done in a session of one's own: a token does not show that its person is there.")
    if not is_present(user):
        raise ProofNeeded("Show again that it is you: sign in anew, or give your second factor at /sign-in/second/.")

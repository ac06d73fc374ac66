"""A proof that the person is there: their sign-in or second factor of a short while ago. What cannot be undone, and
what opens doors for good, asks for it in the action, whichever page or program calls."""

import time

from runs.models import User
from runs.rights.access.refusals import Forbidden

FRESH_S = 15 * 60.0


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

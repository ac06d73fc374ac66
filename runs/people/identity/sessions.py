"""Signed-in browsers: where a person is signed in, and how such a session ends.

A session ends with Django's own row: the browser's next request is nobody's, and its sockets are closed at the next
check (dashboard.sockets.admission).
"""

from datetime import timedelta

import structlog
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.utils import timezone

from runs.actions.people.ways_in import end_rows
from runs.models import BrowserSession, User
from runs.rights.access import or_not_found

log = structlog.get_logger(__name__)

SESSION_ROW = "browser-session"  # in Django's session: the id of its row
CONFIRMED_AT = "confirmed-at"  # in Django's session: when the person last proved who they are
USED_EVERY = timedelta(minutes=1)  # how exactly a session's last use is known


def begin_session(*, user: User, session_key: str, method: str, address: str, agent: str) -> BrowserSession:
    """Record that the person signed in. Their sessions that have expired are forgotten."""
    _forget_expired(user)
    row, _ = BrowserSession.objects.update_or_create(
        session_key=session_key,
        defaults={
            "user": user,
            "method": method[:40],
            "address": address[:45],
            "agent": agent[:300],
            "last_used_at": timezone.now(),
        },
    )
    _was_used(row.pk)
    log.info("session.began", user=user.pk, session=row.pk, method=method)
    return row


def use_session(session_id: str, *, session_key: str, address: str) -> bool:
    """Record that the session was used, at most once a minute. Return whether it is there still."""
    if not _was_used(session_id):
        return True
    changes = {"session_key": session_key, "address": address[:45], "last_used_at": timezone.now()}
    return bool(BrowserSession.objects.filter(pk=session_id).update(**changes))


def change_session_key(session_id: str, session_key: str) -> None:
    """The browser's session goes on under another key, as after a new password."""
    BrowserSession.objects.filter(pk=session_id).update(session_key=session_key)


def sessions_of(user: User) -> list[BrowserSession]:
    """Return where the person is signed in, the last used first."""
    _forget_expired(user)
    return list(user.browser_sessions.all())


def end_session(*, actor: User, session_id: str) -> BrowserSession:
    """End a session of one's own. Raises NotFound for any other."""
    row = BrowserSession.objects.filter(user=actor, pk=session_id).first()
    row = or_not_found(row, f"You have no session {session_id!r}.")
    end_rows([row])
    return row


def end_sessions(user: User, *, but: str = "") -> int:
    """End all sessions of the person, ``but`` the one with that id. Return how many there were."""
    rows = list(BrowserSession.objects.filter(user=user).exclude(pk=but))
    end_rows(rows)
    return len(rows)


def _forget_expired(user: User) -> None:
    rows = dict(user.browser_sessions.values_list("session_key", "pk"))
    live = Session.objects.filter(session_key__in=rows, expire_date__gt=timezone.now())
    if gone := rows.keys() - set(live.values_list("session_key", flat=True)):
        BrowserSession.objects.filter(pk__in=[rows[key] for key in gone]).delete()


def _was_used(session_id: str) -> bool:
    """Return whether this process has not recorded a use of the session within the last minute."""
    return bool(cache.add(f"browser-session:{session_id}", True, USED_EVERY.total_seconds()))

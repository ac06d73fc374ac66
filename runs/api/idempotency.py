"""``Idempotency-Key`` on POST: the same request again, by the same person, gets the same answer and does nothing.

An answer is for the rights that it was made with: whoever may do something else by now, or acts by another token, does
not get it. Answers that hold a secret (marked ``Cache-Control: no-store``) are not kept: a retry makes another one.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError, connection
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from runs.api.auth import who
from runs.api.problems import problem, too_large
from runs.models import IdempotencyKey, User
from runs.people.identity import second_factor
from runs.rights.access import digest_of_rights
from runs.serving.session_locks import KEEPALIVE

KEPT_FOR = timedelta(days=1)


def once(handler: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap an operation's view."""

    @functools.wraps(handler)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        key = request.headers.get("Idempotency-Key")
        user = who(request) if key and request.method == "POST" else None
        if not key or user is None or second_factor.is_missing(user):  # whom the handler refuses, as without a key
            return handler(request, *args, **kwargs)
        if len(key) > 200 or "\0" in key:
            return problem(422, "An Idempotency-Key has at most 200 characters.")
        with _alone(user, key) as is_alone:
            if not is_alone:
                words = "The first request with this Idempotency-Key is still being answered."
                return problem(409, words, code="in-progress", wait_s=2)
            try:
                claimed = _claim(request, user, key)
            except RequestDataTooBig as error:  # this far out nobody else makes it a problem document
                return too_large(request, error)
            if isinstance(claimed, HttpResponse):
                return claimed
            return _keep(request, user, claimed, handler(request, *args, **kwargs))

    return answer


# Lock of whoever answers a request. It ends with the process, and a process that stands still keeps it: PostgreSQL
# gives it up once what the process had sent is committed or undone; with SQLite it is a byte of a file, which the
# system gives up. So nothing of a first try comes any more once another one has its lock.

_answering: dict[int, object] = {}  # a lock of the file is the whole process's: this one is a request's


@contextlib.contextmanager
def _alone(user: User, key: str) -> Iterator[bool]:
    """Yield whether nobody else answers a request with this key, and keep it so."""
    number = int.from_bytes(hashlib.sha256(f"{user.pk} {key}".encode()).digest()[:8], "big") >> 2
    is_alone = _take(number)
    try:
        yield is_alone
    finally:
        if is_alone:
            _let_go(number)


def _take(number: int) -> bool:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_try_advisory_lock(%s), {KEEPALIVE}", [number])
            return bool(cursor.fetchone()[0])
    ours = object()
    if _answering.setdefault(number, ours) is not ours:
        return False
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except (BlockingIOError, PermissionError):  # systems differ in which
        del _answering[number]
        return False
    return True


def _let_go(number: int) -> None:
    if connection.vendor == "postgresql":
        with contextlib.suppress(DatabaseError), connection.cursor() as cursor:  # one that broke has given it up
            cursor.execute("SELECT pg_advisory_unlock(%s)", [number])
        return
    fcntl.lockf(_file(), fcntl.LOCK_UN, 1, number)
    del _answering[number]


@functools.cache
def _file() -> int:
    return os.open(settings.HOME / "answering.lock", os.O_RDWR | os.O_CREAT, 0o600)


def _claim(request: HttpRequest, user: User, key: str) -> IdempotencyKey | HttpResponse:
    """Return the row that this request may answer, or the answer that there already is. The caller has the lock."""
    digest = _digest(request, user)
    is_abandoned = Q(key=key, status_code=0)  # who answered it is gone, since the lock is ours
    is_old = Q(created_at__lt=timezone.now() - KEPT_FOR)
    IdempotencyKey.objects.filter(is_old | is_abandoned, user=user).delete()
    row = IdempotencyKey.objects.filter(user=user, key=key).first()
    if row is None:
        return IdempotencyKey.objects.create(user=user, key=key, path=request.path[:300], body_digest=digest)
    if row.body_digest != digest:
        return problem(
            422, "This Idempotency-Key was used for another request, or with other rights.", code="key-reused"
        )
    kind = "application/problem+json" if row.status_code >= 400 else "application/json"
    response = HttpResponse(row.answer, status=row.status_code, content_type=kind)
    response["Idempotency-Replayed"] = "true"
    return response


def _digest(request: HttpRequest, user: User) -> str:
    head = f"{request.get_full_path()}\n{digest_of_rights(user)}\n"
    return hashlib.sha256(head.encode() + request.body).hexdigest()


def _keep(request: HttpRequest, user: User, row: IdempotencyKey, response: HttpResponse) -> HttpResponse:
    """Keep the answer, unless trying again may give a better one."""
    is_final = response.status_code < 500 and response.status_code not in (401, 403, 409)
    if response.streaming or not is_final or "no-store" in response.get("Cache-Control", ""):
        row.delete()
    else:
        IdempotencyKey.objects.filter(pk=row.pk).update(
            status_code=response.status_code,
            answer=response.content.decode(),
            body_digest=_digest(request, user),  # who makes a project is its owner from then on
        )
    return response

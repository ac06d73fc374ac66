"""``Idempotency-Key`` on POST: the same request again, by the same person, gets the same answer and does nothing.

An answer is for the rights that it was made with: whoever may do something else by now, or acts by another token, does
not get it. Answers that hold a secret (marked ``Cache-Control: no-store``) are not kept: a retry makes another one.
"""

import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from redis.exceptions import RedisError

from runs.api.auth import who
from runs.api.problems import problem, too_large
from runs.models import IdempotencyKey, User
from runs.people.identity import second_factor
from runs.rights.access import digest_of_rights
from runs.serving.transport import redis
from trainyard.contract.seals import PREFIX

log = structlog.get_logger(__name__)

KEPT_FOR = timedelta(days=1)
# A request that is being answered has a lease in Valkey, which its process renews from another thread. Without it the
# process has died, and the same request may be answered by another one, of whichever web server.
LEASE_S = 15.0
RENEW_EVERY_S = 3.0
LEASE = f"{PREFIX}:control:answering"


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
        try:
            claimed = _claim(request, user, key)
        except RequestDataTooBig as error:  # this far out nobody else makes it a problem document
            return too_large(request, error)
        if isinstance(claimed, HttpResponse):
            return claimed
        with _leased(claimed):
            return _keep(request, user, claimed, handler(request, *args, **kwargs))

    return answer


@contextlib.contextmanager
def _leased(row: IdempotencyKey) -> Iterator[None]:
    over = threading.Event()
    threading.Thread(target=_renew, args=(row.pk, over), name="idempotency", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _renew(pk: int, over: threading.Event) -> None:
    while not over.is_set():
        with contextlib.suppress(RedisError, OSError):  # whoever asks for the lease meanwhile is not answered either
            redis().set(f"{LEASE}:{pk}", 1, px=int(1000 * LEASE_S))
        over.wait(RENEW_EVERY_S)


def _is_abandoned(row: IdempotencyKey) -> bool:
    """Return whether the process that answered the request has died. Unknown, and so no, while Valkey is away."""
    if timezone.now() - row.created_at < timedelta(seconds=LEASE_S):
        return False
    try:
        return not redis().exists(f"{LEASE}:{row.pk}")
    except (RedisError, OSError) as error:
        log.warning("idempotency.unknown", key=row.pk, error=str(error))
        return False


def _claim(request: HttpRequest, user: User, key: str) -> IdempotencyKey | HttpResponse:
    """Return the row that this request may answer, or the answer that there already is."""
    digest = _digest(request, user)
    IdempotencyKey.objects.filter(user=user, created_at__lt=timezone.now() - KEPT_FOR).delete()
    before = IdempotencyKey.objects.filter(user=user, key=key, status_code=0).first()
    if before is not None and _is_abandoned(before):
        IdempotencyKey.objects.filter(pk=before.pk, status_code=0).delete()
    try:
        with transaction.atomic():
            return IdempotencyKey.objects.create(user=user, key=key, path=request.path[:300], body_digest=digest)
    except IntegrityError:
        row = IdempotencyKey.objects.filter(user=user, key=key).first()
    if row is None or row.status_code == 0:
        words = "The first request with this Idempotency-Key is still being answered."
        return problem(409, words, code="in-progress", wait_s=2)
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
        # Another process may have taken the row for abandoned, if this one stood still for long.
        IdempotencyKey.objects.filter(pk=row.pk).update(
            status_code=response.status_code,
            answer=response.content.decode(),
            body_digest=_digest(request, user),  # who makes a project is its owner from then on
        )
    return response

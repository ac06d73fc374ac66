"""``Idempotency-Key`` on POST: the same request again, by the same person, gets the same answer and does nothing.

Answers that hold a secret (marked ``Cache-Control: no-store``) are not kept: a retry then makes another secret.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from runs.api.auth import who
from runs.api.problems import problem, too_large
from runs.models import IdempotencyKey, User

KEPT_FOR = timedelta(days=1)
TAKEN_OVER_AFTER = timedelta(minutes=2)  # the process that answered the first request died


def once(handler: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap an operation's view."""

    @functools.wraps(handler)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        key = request.headers.get("Idempotency-Key")
        user = who(request) if key and request.method == "POST" else None
        if not key or user is None:
            return handler(request, *args, **kwargs)
        if len(key) > 200 or "\0" in key:
            return problem(422, "An Idempotency-Key has at most 200 characters.")
        try:
            claimed = _claim(request, user, key)
        except RequestDataTooBig as error:  # this far out nobody else makes it a problem document
            return too_large(request, error)
        if isinstance(claimed, HttpResponse):
            return claimed
        return _keep(claimed, handler(request, *args, **kwargs))

    return answer


def _claim(request: HttpRequest, user: User, key: str) -> IdempotencyKey | HttpResponse:
    """Return the row that this request may answer, or the answer that there already is."""
    # A token with fewer scopes does not get the answer that was made for one with more.
    rights = "" if user.token is None else f"{user.token.scopes} {user.token.project_ids}"
    digest = hashlib.sha256(f"{request.get_full_path()}\n{rights}\n".encode() + request.body).hexdigest()
    now = timezone.now()
    IdempotencyKey.objects.filter(user=user, created_at__lt=now - KEPT_FOR).delete()
    IdempotencyKey.objects.filter(user=user, key=key, status_code=0, created_at__lt=now - TAKEN_OVER_AFTER).delete()
    try:
        with transaction.atomic():
            return IdempotencyKey.objects.create(user=user, key=key, path=request.path[:300], body_digest=digest)
    except IntegrityError:
        row = IdempotencyKey.objects.filter(user=user, key=key).first()
    if row is None or row.status_code == 0:
        return problem(409, "The first request with this Idempotency-Key is still being answered.", code="in-progress")
    if row.body_digest != digest:
        return problem(422, "This Idempotency-Key was used for another request.", code="key-reused")
    kind = "application/problem+json" if row.status_code >= 400 else "application/json"
    response = HttpResponse(row.answer, status=row.status_code, content_type=kind)
    response["Idempotency-Replayed"] = "true"
    return response


def _keep(row: IdempotencyKey, response: HttpResponse) -> HttpResponse:
    """Keep the answer, unless trying again may give a better one."""
    is_final = response.status_code < 500 and response.status_code not in (401, 403, 409)
    if response.streaming or not is_final or "no-store" in response.get("Cache-Control", ""):
        row.delete()
    else:
        row.status_code = response.status_code
        row.answer = response.content.decode()
        row.save(update_fields=["status_code", "answer"])
    return response

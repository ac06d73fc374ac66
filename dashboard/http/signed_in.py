"""Checks of every request of a signed-in browser: its session is still there, its use is recorded, and a person who
needs a second factor and has none gets no further than to the page that sets one up, nor one who has not agreed to the
terms of the site further than to those."""

import time
from collections.abc import Callable
from functools import lru_cache
from inspect import getclosurevars, isfunction
from typing import Any

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin
from ninja.operation import PathView

from runs.actions.people.ways_in import end_rows
from runs.api.auth import SessionAuth
from runs.api.problems import problem
from runs.models import BrowserSession, User
from runs.people.identity import second_factor
from runs.people.identity.sessions import CONFIRMED_AT, SESSION_ROW, begin_session, use_session
from runs.privacy import consent
from runs.rights.audit.recording import APIS
from runs.serving.rates import TooManyRequests, claim

# Pages open to a person who needs a second factor and has none.
OPEN = frozenset(
    {"security", "set-up-app", "set-up-key", "recovery-codes", "second-factor-step", "sign-in", "sign-out"}
)
# Pages open to a person who has not agreed to the terms: to read them, and to leave with all their data.
OPEN_BEFORE_CONSENT = frozenset(
    {"consent", "personal-data", "export-own-data", "erase-me", "download_export", "second-factor-step"}
)


class SignedInMiddleware(MiddlewareMixin):
    """Looks at requests with a session alone: what comes with a token is runs.api.auth's."""

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponseBase], arguments: Any, keywords: Any
    ) -> HttpResponse | None:
        is_api = request.path.startswith(APIS)
        if settings.SESSION_COOKIE_NAME not in request.COOKIES or not takes_session(view, str(request.method)):
            return None
        if is_api and "Authorization" in request.headers:  # then SessionAuth takes no session; a page takes it anyway
            return None
        user = request.user
        if not isinstance(user, User):
            return None
        user.proved_at = float(request.session.get(CONFIRMED_AT, 0.0))
        if not _is_there(request, user):
            logout(request)
            return None
        if not is_api:  # there the way in counts, for tokens and sessions
            try:
                claim(person=user.pk)
            except TooManyRequests as error:
                return _too_many(request, error)
        match = request.resolver_match
        if match is not None and match.url_name in OPEN:
            return None
        if second_factor.is_missing(user):
            return _refused(request, second_factor.SENTENCE, "second-factor", to="security")
        if match is not None and match.url_name not in OPEN_BEFORE_CONSENT and consent.is_missing(user):
            return _refused(request, consent.SENTENCE, "consent", to="consent")
        return None


def _is_there(request: HttpRequest, user: User) -> bool:
    row_id = request.session.get(SESSION_ROW)
    key, address = request.session.session_key or "", request.META.get("REMOTE_ADDR", "")
    if row_id:
        return use_session(str(row_id), session_key=key, address=address)
    _record(request, user, method="")  # it began before sessions were recorded
    return True


def _too_many(request: HttpRequest, error: TooManyRequests) -> HttpResponse:
    is_script = request.headers.get("X-Requested-With") == "fetch"
    plain = HttpResponse(error.sentence, status=429, content_type="text/plain; charset=utf-8")
    answer = JsonResponse({"sentence": error.sentence}, status=429) if is_script else plain
    answer["Retry-After"] = str(error.wait_s)
    return answer


def _refused(request: HttpRequest, sentence: str, code: str, *, to: str) -> HttpResponse:
    if request.path.startswith(APIS):
        return problem(403, sentence, code=code)
    if request.headers.get("X-Requested-With") == "fetch":
        return JsonResponse({"sentence": sentence}, status=403)
    return redirect(to)


@receiver(user_logged_in)
def on_sign_in(request: HttpRequest, user: User, **_: object) -> None:
    user.proved_at = request.session[CONFIRMED_AT] = time.time()
    _record(request, user, method=getattr(request, "sign_in_method", ""))


@receiver(user_logged_out)
def on_sign_out(request: HttpRequest, **_: object) -> None:
    end_rows(list(BrowserSession.objects.filter(pk=request.session.get(SESSION_ROW, ""))))


def _record(request: HttpRequest, user: User, *, method: str) -> None:
    if not request.session.session_key:
        request.session.create()
    row = begin_session(
        user=user,
        session_key=str(request.session.session_key),
        method=method,
        address=request.META.get("REMOTE_ADDR", ""),
        agent=request.META.get("HTTP_USER_AGENT", ""),
    )
    request.session[SESSION_ROW] = row.pk
    second_factor.projects_asking()  # the first page need not ask


@lru_cache(maxsize=4096)
def takes_session(view: Callable[..., Any], method: str) -> bool:
    """Return whether the view looks at a session at all. What nobody signs in for, and what nodes call, answers without
    one, and so without a database."""
    path_view = getclosurevars(view).nonlocals.get("self") if isfunction(view) else None
    if not isinstance(path_view, PathView):
        return True
    operations = [one for one in path_view.operations if method in one.methods]
    return any(isinstance(auth, SessionAuth) for one in operations for auth in one.auth_callbacks)

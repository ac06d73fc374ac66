"""The last step of every way in: the second factor where one is due, then the session."""

import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import constant_time_compare

from dashboard.pages.account import factors
from runs.models import BrowserSession, User
from runs.people.identity.checking import Arrival, keep_for_checks
from runs.people.identity.sessions import SESSION_ROW
from runs.rights.audit.recording import describe
from trainyard.contract.base import convert, to_builtins

NAME = f"trainyard-browser-{settings.PORT}"
AGE_S = 90 * 24 * 3600
SALT = "known-browser"
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
WAITING = "sign-in-waiting"  # in the session: who gave a first factor
WAITS_S = 600.0
ARRIVAL = "sign-in-arrival"  # in the session: what a provider gave


@dataclass(frozen=True)
class SecondFactorPending:
    """Sign-in of a person who has given a first factor, and not yet the second."""

    user_id: int
    method: str
    after: str
    since: float
    stamp: str = ""  # of the person's password: a new one, and the end of all ways in, end this too


def enter(request: HttpRequest, user: User, after: str, method: str, *, is_enough: bool = False) -> HttpResponse:
    """Sign the person in, or ask for their second factor first. ``is_enough``: a provider has asked for one."""
    if factors.has_any(user) and not is_enough:
        pending = SecondFactorPending(user.pk, method, after, time.time(), user.get_session_auth_hash())
        request.session[WAITING] = asdict(pending)
        by = {"actor": user.username, "actor_number": user.pk, "object": f"user {user.username}"}
        describe(action="sign-in.first-factor", is_wanted=True, **by)
        return redirect("second-factor-step")
    return admit(request, user, after, method)


def admit(request: HttpRequest, user: User, after: str, method: str) -> HttpResponse:
    """Begin the session."""
    begin(request, user, method)
    response = redirect(after)
    remember(request, response, user.username)
    return response


def begin(request: HttpRequest, user: User, method: str) -> None:
    """Sign the person in; the signal of it records the session (dashboard.http.signed_in)."""
    request.session.pop(WAITING, None)
    kept = request.session.pop(ARRIVAL, None)  # what a provider gave: taken before the session may be emptied
    arrival = convert(kept, Arrival) if kept is not None else None
    request.sign_in_method = method  # type: ignore[attr-defined]
    login(request, user, backend=MODEL_BACKEND)
    row = BrowserSession.objects.filter(pk=request.session.get(SESSION_ROW, "")).first()
    provider = settings.SIGN_IN.provider(method)
    if arrival is not None and arrival.provider == method and row is not None and provider is not None:
        keep_for_checks(row, provider, arrival)


def wait_with(request: HttpRequest, arrival: Arrival) -> None:
    """Keep what a provider gave until the session begins."""
    request.session[ARRIVAL] = to_builtins(arrival)


def waiting(request: HttpRequest) -> tuple[User, SecondFactorPending] | None:
    """Return who is to give a second factor in this browser, None where nobody is (any more)."""
    found: dict[str, Any] | None = request.session.get(WAITING)
    if found is None:
        return None
    one = SecondFactorPending(**found)
    user = User.objects.filter(pk=one.user_id, is_active=True).first()
    stamp = user.get_session_auth_hash() if user is not None else ""
    if user is None or time.time() - one.since > WAITS_S or not constant_time_compare(one.stamp, stamp):
        del request.session[WAITING]
        return None
    return user, one


def sign_in_context(**context: object) -> dict[str, object]:
    """Return what the page of the sign-in shows besides."""
    providers = [(one.id, one.name) for one in settings.SIGN_IN.providers]
    return {"providers": providers, "has_provider": bool(providers), **context}


# A cookie of a browser in which this person signed in before. It opens nothing; attempts there are counted apart.


def browser_of(request: HttpRequest, username: str) -> str:
    """Return the name of this browser where that person signed in with it before, else ""."""
    try:
        name, browser = signing.loads(request.COOKIES.get(NAME, ""), salt=SALT, max_age=AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(browser) if name == username else ""


def remember(request: HttpRequest, response: HttpResponse, username: str) -> None:
    response.set_cookie(
        NAME,
        signing.dumps([username, browser_of(request, username) or secrets.token_urlsafe(12)], salt=SALT),
        max_age=AGE_S,
        secure=settings.IS_TLS,
        httponly=True,
        samesite="Lax",
        path="/sign-in/",
    )

"""Ways in and out: a one-time link, an invitation, a password where somebody set one, the second factor behind it."""

import json
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import login, logout
from django.core import signing
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from dashboard.pages.account import factors
from dashboard.pages.shared import frame
from dashboard.pages.shared.frame import fresh_json, is_script, page, safe_next, show, to_sign_in
from runs import actions
from runs.actions import Paused
from runs.models import BrowserSession, User
from runs.people.identity.checking import Arrival, keep_for_checks
from runs.people.identity.sessions import CONFIRMED_AT, SESSION_ROW
from runs.rights.access import Forbidden, NotFound, Permission, get_invitation
from runs.rights.access.operations import ARRIVING, PUBLIC, site
from runs.rights.audit.recording import describe
from trainyard.contract.base import convert, to_builtins

WRONG = "This is not a code of yours, or it was used already. Wait for the next one and try again."
WRONG_KEY = "The security key was not accepted. Try again, or give a code."
BUSY_S = 5  # after which too many passwords are no longer being checked, probably
SECOND_FIRST = "Your second factor is asked for next: sign in in another tab, then come back to this one."


@page(get=PUBLIC, post=PUBLIC)
@sensitive_post_parameters("password")
def sign_in(request: HttpRequest) -> HttpResponse:
    after = safe_next(request, request.POST.get("next") or request.GET.get("next", ""), reverse("home"))
    if request.user.is_authenticated:
        return _here(request) if is_script(request) else redirect(after)
    if request.method != "POST":
        return _here(request) if is_script(request) else _form(request, next=after)
    username = request.POST.get("username", "")
    try:
        user = actions.sign_in(
            username=username,
            password=request.POST.get("password", ""),
            address=request.META.get("REMOTE_ADDR", ""),
            browser=browser_of(request, username),
        )
    except actions.Refused as error:
        status, wait_s = (429, error.wait_s) if isinstance(error, actions.Paused) else (503, BUSY_S)
        answer = _refuse(request, username, error.sentence, status)
        answer["Retry-After"] = str(wait_s)
        return answer
    if user is None:
        return _refuse(request, username, "No account has this name and this password.", 422)
    return _enter(request, user, after, "password")


def _here(request: HttpRequest) -> HttpResponse:
    """Say to a page that is open who is signed in now, and the token that its forms need."""
    answer = {"csrf": get_token(request), "username": request.user.get_username()}
    if not request.user.is_authenticated:
        answer["sentence"] = frame.SIGNED_OUT
    return fresh_json(answer, status=200 if request.user.is_authenticated else 401)


def _refuse(request: HttpRequest, username: str, problem: str, status: int) -> HttpResponse:
    if is_script(request):
        return JsonResponse({"sentence": problem}, status=status)
    after = safe_next(request, request.POST.get("next", ""), reverse("home"))
    return _form(request, next=after, username=username, problem=problem, status=status)


def _form(request: HttpRequest, *, status: int = 200, **context: object) -> HttpResponse:
    return show(request, "sign_in.html", sign_in_context(**context), status=status)


def _enter(request: HttpRequest, user: User, after: str, method: str) -> HttpResponse:
    response = enter(request, user, after, method)
    if not is_script(request):
        return response
    if WAITING in request.session:
        return JsonResponse({"sentence": SECOND_FIRST}, status=422)
    answer = _here(request)
    answer.cookies.update(response.cookies)
    return answer


@page(get=site(Permission.CLUSTERS_MANAGE)._replace(by_view=True))
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """The admin has no form of its own: there is one place where passwords are checked."""
    if not request.user.is_authenticated:
        return to_sign_in(request, safe_next(request, request.GET.get("next", ""), reverse("admin:index")))
    if not request.user.is_staff:
        raise Forbidden("The admin is for staff.")
    return redirect(safe_next(request, request.GET.get("next", ""), reverse("admin:index")))


@page(get=PUBLIC)
def use_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Consume the link at once, so that the one that `make demo` prints works in one click."""
    after = safe_next(request, request.GET.get("next", ""), reverse("home"))
    if request.method == "HEAD":  # a previewer looks; only a visit uses the link up
        return _form(request, next=after)
    user = actions.use_sign_in_link(secret)
    if user is None:
        if request.user.is_authenticated:
            return redirect(after)
        problem = "This link was used already, or is too old. Make a new one with the command below."
        return _form(request, next=after, problem=problem, status=410)
    response = _enter(request, user, after, "link")
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store"
    return response


@page(post=PUBLIC)
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")


@page(get=PUBLIC, post=PUBLIC)
@sensitive_variables("secret")
@sensitive_post_parameters("password")
def accept(request: HttpRequest, secret: str) -> HttpResponse:
    """Looking uses nothing up; only the form does."""
    try:
        invitation = get_invitation(secret)
    except NotFound:
        return _private(show(request, "people/gone.html", status=410))
    context: dict[str, Any] = {"invitation": invitation, "username": request.POST.get("username", "").strip()}
    if request.method == "POST":
        try:
            who = _accept(request, secret, context["username"])
        except NotFound:  # somebody else used it in between
            return _private(show(request, "people/gone.html", status=410))
        except ValidationError as error:
            context["problems"] = frame.problems_of(error)
        except actions.Refused as error:
            context["problems"] = {"username": error.sentence}
        else:
            if not request.user.is_authenticated:
                begin(request, who, "invitation")
            response = redirect("home")
            remember(request, response, who.username)
            return _private(response)
    return _private(show(request, "people/accept.html", context, status=422 if "problems" in context else 200))


def _accept(request: HttpRequest, secret: str, username: str) -> User:
    if isinstance(request.user, User):
        return actions.accept_invitation(secret=secret, user=request.user)
    return actions.accept_invitation(secret=secret, username=username, password=request.POST.get("password", ""))


def _private(response: HttpResponse) -> HttpResponse:
    """The address is a secret: it is in no cache, and (as everywhere here) in no referrer to another site. Without any
    referrer the browser would send the form with an origin of "null", which is refused."""
    response["Referrer-Policy"] = "same-origin"
    response["Cache-Control"] = "no-store"
    return response


# The second factor: asked for after the first one, and again before what protects the account is changed.


@page(get=ARRIVING, post=ARRIVING)
@sensitive_post_parameters("code", "credential")
def second_step(request: HttpRequest) -> HttpResponse:
    """Ask for the second factor: after the first one, or where a person is to prove again who they are."""
    waits = waiting(request)
    if waits is not None:
        user, after = waits[0], waits[1].after
    elif isinstance(request.user, User):
        user, after = request.user, safe_next(request, request.GET.get("next", ""), reverse("security"))
    else:
        return to_sign_in(request, reverse("home"))
    if not factors.has_any(user):
        # They prove it by signing in again.
        return show(request, "account/again.html", {"after": after, "person": user})
    if request.method != "POST":
        return _ask(request, user)
    try:
        problem = _problem_of(request, user)
    except Paused as error:
        response = _ask(request, user, error.sentence, 429)
        response["Retry-After"] = str(error.wait_s)
        return response
    except factors.Unreadable as error:
        return _ask(request, user, error.sentence, 503)
    if problem:
        return _ask(request, user, problem, 422)
    if waits is not None:
        return admit(request, user, after, waits[1].method)
    request.session[CONFIRMED_AT] = time.time()
    return redirect(after)


def _problem_of(request: HttpRequest, user: User) -> str:
    """Return what is wrong with the second factor, "" where it is right. Raises Paused."""
    answer, address = request.POST.get("credential", ""), request.META.get("REMOTE_ADDR", "")
    if not answer:
        return "" if factors.check_code(user, request.POST.get("code", ""), address) else WRONG
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        return WRONG_KEY
    return "" if factors.check_key(user, document, address) else WRONG_KEY


def _ask(request: HttpRequest, user: User, problem: str = "", status: int = 200) -> HttpResponse:
    there = factors.factors_of(user)
    options = factors.ask_key(user) if there.keys else None
    context = {"person": user, "factors": there, "problem": problem, "options": options}
    return show(request, "account/second_step.html", context, status=status)


# The last step of every way in: the second factor where one is due, then the session.


NAME = settings.SESSION_COOKIE_NAME.replace("session", "browser")  # with the port that people see
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

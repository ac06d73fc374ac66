"""Ways in and out: a one-time link, a password where somebody set one, and the second factor behind it."""

import json
import time

from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.account import factors
from dashboard.pages.account.entering import WAITING, admit, browser_of, enter, sign_in_context, waiting
from dashboard.pages.shared.frame import SIGNED_OUT, fresh_json, is_script, page, safe_next, show, to_sign_in
from runs import actions
from runs.actions import Paused
from runs.models import User
from runs.people.identity.sessions import CONFIRMED_AT
from runs.rights.access import Forbidden, Permission
from runs.rights.access.operations import ARRIVING, PUBLIC, site

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
        answer["sentence"] = SIGNED_OUT
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

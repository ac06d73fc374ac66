"""Ways in and out: a one-time link, a password where somebody set one."""

from __future__ import annotations

from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.account.entering import WAITING, browser_of, enter, sign_in_context
from dashboard.pages.shared.frame import SIGNED_OUT, is_script, page, safe_next, show, to_sign_in
from runs import actions
from runs.models import User
from runs.rights.access import Forbidden, Permission
from runs.rights.access.operations import PUBLIC, site

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
    response = JsonResponse(answer, status=200 if request.user.is_authenticated else 401)
    response["Cache-Control"] = "no-store"
    return response


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

"""The second factor: asked for after the first one, and again before what protects the account is changed."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.account import factors
from dashboard.pages.account.entering import admit, confirmed, waiting
from dashboard.pages.shared.frame import page, safe_next, show, to_sign_in
from runs.actions import Paused
from runs.models import User
from runs.rights.access.operations import ARRIVING

WRONG = "This is not a code of yours, or it was used already. Wait for the next one and try again."
WRONG_KEY = "The security key was not accepted. Try again, or give a code."


@page(get=ARRIVING, post=ARRIVING)
@sensitive_post_parameters("code", "credential")
def second_step(request: HttpRequest) -> HttpResponse:
    """For whoever gave a first factor a moment ago, and for a person who is to prove again who they are."""
    waits = waiting(request)
    if waits is not None:
        user, after = waits[0], waits[1].after
    elif isinstance(request.user, User):
        user, after = request.user, safe_next(request, request.GET.get("next", ""), reverse("security"))
    else:
        return to_sign_in(request, reverse("home"))
    if not factors.has_any(user):
        return _by_password(request, user, after)
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
    confirmed(request)
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


def _by_password(request: HttpRequest, user: User, after: str) -> HttpResponse:
    """Somebody without a second factor proves who they are by signing in again."""
    return show(request, "account/again.html", {"after": after, "person": user})


def _ask(request: HttpRequest, user: User, problem: str = "", status: int = 200) -> HttpResponse:
    there = factors.factors_of(user)
    context = {
        "person": user,
        "factors": there,
        "problem": problem,
        "options": factors.ask_key(user) if there.keys else None,
    }
    return show(request, "account/second_step.html", context, status=status)

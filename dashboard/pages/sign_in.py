"""Ways in and out: a one-time link, a password where somebody set one."""

from __future__ import annotations

from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.frame import page, safe_next, show
from runs.actions import use_sign_in_link

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


@page(methods=("GET", "POST"), public=True)
@sensitive_post_parameters("password")
def sign_in(request: HttpRequest) -> HttpResponse:
    after = safe_next(request, request.POST.get("next") or request.GET.get("next", ""), reverse("home"))
    if request.user.is_authenticated:
        return redirect(after)
    context = {"next": after, "username": request.POST.get("username", "")}
    if request.method == "POST":
        user = authenticate(request, username=context["username"], password=request.POST.get("password", ""))
        if user is not None:
            login(request, user)
            return redirect(after)
        context["problem"] = "No account has this name and this password."
    return show(request, "sign_in.html", context, status=200 if request.method != "POST" else 422)


@page(methods=("GET",), public=True)
def use_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Consume the link at once, so that the one that `make demo` prints works in one click."""
    after = safe_next(request, request.GET.get("next", ""), reverse("home"))
    if request.method == "HEAD":  # a previewer looks; only a visit uses the link up
        return show(request, "sign_in.html", {"next": after})
    user = use_sign_in_link(secret)
    if user is None:
        if request.user.is_authenticated:
            return redirect(after)
        problem = "This link was used already, or is too old. Make a new one with the command below."
        return show(request, "sign_in.html", {"next": after, "problem": problem}, status=410)
    login(request, user, backend=MODEL_BACKEND)
    response = redirect(after)
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store"
    return response


@page(methods=("POST",), public=True)
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")

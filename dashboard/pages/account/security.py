"""Security of one's own account: second factors, sessions, accounts at providers."""

import base64
import re

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.account import factors
from dashboard.pages.account.provider import connect_key, known_provider
from dashboard.pages.shared.frame import answer, page, person, show
from runs.actions import Paused, Refused
from runs.models import BrowserSession
from runs.people.identity import second_factor
from runs.people.identity.people import disconnect
from runs.people.identity.sessions import SESSION_ROW, end_session, end_sessions, sessions_of
from runs.rights.access import Permission, require_presence
from runs.rights.access.operations import own

FRAGMENTS = {"sessions": "account/_sessions.html"}
METHODS = {"password": "by password", "link": "by a link", "invitation": "by an invitation"}
AGENTS = (  # the first that fits names the browser, then the system
    (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari")),
    (("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("Mac OS", "macOS"),
     ("Linux", "Linux")),
)  # fmt: skip
WRONG_CODE = "This is not the code that the app shows now. Check the clock of its device and try the next code."


@page(get=own(Permission.ACCOUNT_READ))
def security(request: HttpRequest) -> HttpResponse:
    user = person(request)
    here = request.session.get(SESSION_ROW)
    names = {one.id: one.name for one in settings.SIGN_IN.providers}
    connected = {one.provider: one for one in user.identities.exclude(subject="")}
    sessions = [(row, device_of(row.agent), _method(row, names), row.pk == here) for row in sessions_of(user)]
    context = {
        "factors": factors.factors_of(user),
        "is_missing": second_factor.is_missing(user),
        "sessions": sessions,
        "num_others": sum(not is_here for *_, is_here in sessions),
        "connect_key": connect_key(request),
        "providers": [(key, name, connected.get(key)) for key, name in names.items()],
    }
    return show(request, "account/security.html", context, fragments=FRAGMENTS)


@page(post=own(Permission.ACCOUNT_MANAGE))
def end(request: HttpRequest, session_id: str) -> HttpResponse:
    row = end_session(actor=person(request), session_id=session_id)
    return answer(request, f"Signed out {device_of(row.agent)}: its pages close within seconds.", home="security")


@page(post=own(Permission.ACCOUNT_MANAGE))
def end_others(request: HttpRequest) -> HttpResponse:
    num = end_sessions(person(request), but=str(request.session.get(SESSION_ROW, "")))
    words = "1 other browser" if num == 1 else f"{num} other browsers"
    return answer(request, f"Signed out {words}.", home="security")


@page(get=own(Permission.ACCOUNT_MANAGE), post=own(Permission.ACCOUNT_MANAGE))
@sensitive_post_parameters("code")
def set_up_app(request: HttpRequest) -> HttpResponse:
    """Show the secret as a picture and as text, and take the first code."""
    user = person(request)
    require_presence(user)
    if request.method != "POST":
        return _app_page(request, factors.new_app(request, user))
    had_any = factors.has_any(user)
    try:
        is_right = factors.set_up_app(request, user, request.POST.get("code", ""))
    except Paused as error:
        response = _app_page(request, factors.shown_app(request, user), error.sentence, 429)
        response["Retry-After"] = str(error.wait_s)
        return response
    if not is_right:
        return _app_page(request, factors.shown_app(request, user), WRONG_CODE, 422)
    return _set_up(request, had_any=had_any)


@page(get=own(Permission.ACCOUNT_MANAGE), post=own(Permission.ACCOUNT_MANAGE))
def set_up_key(request: HttpRequest) -> HttpResponse:
    user = person(request)
    require_presence(user)
    problem, status = "", 200
    if request.method == "POST":
        had_any = factors.has_any(user)
        if factors.set_up_key(user, request.POST.get("name", ""), request.POST.get("credential", "")):
            return _set_up(request, had_any=had_any)
        problem, status = "The security key was not accepted. Try again, or another key.", 422
    return show(request, "account/key.html", {"options": factors.new_key(user), "problem": problem}, status=status)


@page(post=own(Permission.ACCOUNT_MANAGE))
def recovery_codes(request: HttpRequest) -> HttpResponse:
    """Make new recovery codes and show them, this once."""
    user = person(request)
    require_presence(user)
    if not factors.has_any(user):
        raise Refused("no-second-factor", "Set up an app or a security key first.")
    return show(request, "account/codes.html", {"codes": factors.new_codes(user)})


@page(post=own(Permission.ACCOUNT_MANAGE))
def remove_factor(request: HttpRequest, factor_id: int) -> HttpResponse:
    name = factors.remove(person(request), factor_id)
    messages.success(request, f"Removed {name}.")
    return redirect("security")


@page(post=own(Permission.ACCOUNT_MANAGE))
def forget_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    known_provider(provider_id)
    if not person(request).has_usable_password():
        raise Refused("last-way-in", "Set a password first: without it you could not sign in any more.")
    disconnect(provider_id, person(request))
    return answer(request, "Disconnected the account.", home="security")


def device_of(agent: str) -> str:
    browser, system = (next((name for sign, name in signs if sign in agent), "") for signs in AGENTS)
    words = f"{browser} on {system}" if browser and system else browser or system
    return words or re.sub(r"[^\w ./-]", "", agent)[:40] or "a browser"


def _set_up(request: HttpRequest, *, had_any: bool) -> HttpResponse:
    """Show the recovery codes after the first factor; after any other go back to the page of factors."""
    if had_any:
        messages.success(request, "Your second factor is set up.")
        return redirect("security")
    return show(request, "account/codes.html", {"codes": factors.new_codes(person(request)), "is_first": True})


def _app_page(request: HttpRequest, app: tuple[str, str], problem: str = "", status: int = 200) -> HttpResponse:
    secret, svg = app
    shown = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
    picture = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    return show(request, "account/app.html", {"secret": shown, "picture": picture, "problem": problem}, status=status)


def _method(row: BrowserSession, names: dict[str, str]) -> str:
    return METHODS.get(row.method) or (f"through {names.get(row.method, row.method)}" if row.method else "")

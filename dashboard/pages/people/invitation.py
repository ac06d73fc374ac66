"""Page behind the link of an invitation: choose a name and a password, or join with one's account."""

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from dashboard.pages.account.entering import begin, remember
from dashboard.pages.shared.frame import page, problems_of, show
from runs.actions import Refused, accept_invitation
from runs.models import User
from runs.rights.access import NotFound, get_invitation
from runs.rights.access.operations import PUBLIC


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
            context["problems"] = problems_of(error)
        except Refused as error:
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
        return accept_invitation(secret=secret, user=request.user)
    return accept_invitation(secret=secret, username=username, password=request.POST.get("password", ""))


def _private(response: HttpResponse) -> HttpResponse:
    """The address is a secret: it is in no cache, and (as everywhere here) in no referrer to another site. Without any
    referrer the browser would send the form with an origin of "null", which is refused."""
    response["Referrer-Policy"] = "same-origin"
    response["Cache-Control"] = "no-store"
    return response

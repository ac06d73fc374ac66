"""Pages about one person: behind the link of an invitation, and for administrators: an export, and an erasure."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from dashboard.pages.account.entering import begin, remember
from dashboard.pages.shared.frame import page, problems_of, show
from dashboard.pages.shared.frame import person as who_asks
from runs import actions
from runs.actions import Refused, accept_invitation
from runs.models import PersonalExport, User
from runs.rights.access import NotFound, get_invitation, or_not_found
from runs.rights.access.operations import HIDDEN_ADMINISTRATOR, PUBLIC


@page(get=HIDDEN_ADMINISTRATOR)
def person(request: HttpRequest, person_id: int) -> HttpResponse:
    return _show(request, _found(person_id))


@page(post=HIDDEN_ADMINISTRATOR)
def export(request: HttpRequest, person_id: int) -> HttpResponse:
    found = _found(person_id)
    actions.request_export(actor=who_asks(request), user=found)
    messages.success(request, f"The export for {found} is being made. Only they can download it, under their account.")
    return redirect("person", person_id)


@page(post=HIDDEN_ADMINISTRATOR)
def erase(request: HttpRequest, person_id: int) -> HttpResponse:
    found = _found(person_id)
    try:
        row = actions.erase_person(
            actor=who_asks(request),
            user=found,
            confirm=request.POST.get("confirm", "").strip(),
            with_runs=request.POST.get("with_runs") == "on",
        )
    except actions.Refused as refused:
        return _show(request, found, problem=refused.sentence, status=409)
    messages.success(request, f"Erased. In the audit stands {row.pseudonym} from now on.")
    return redirect("people")


def _found(person_id: int) -> User:
    return or_not_found(User.objects.filter(pk=person_id, service_of=None).first(), "There is no such person.")


def _show(request: HttpRequest, found: User, *, problem: str = "", status: int = 200) -> HttpResponse:
    context = {
        "found": found,
        "exports": PersonalExport.objects.filter(user=found),
        "memberships": found.memberships.select_related("project").order_by("project__name"),
        "why_not": actions.why_not_erased(found),
        "num_runs": found.runs.count(),
        "problem": problem,
    }
    return show(request, "people/person.html", context, status=status)


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

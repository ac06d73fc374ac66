"""Pages about the data of a person, one's own and, for administrators, another's: exports, erasure; and the text that
one agrees to."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.shared.frame import page, person, safe_next, show
from runs import actions
from runs.models import ErasedPerson, PersonalExport, User
from runs.privacy import consent
from runs.rights.access import Permission, or_not_found
from runs.rights.access.operations import HIDDEN_ADMINISTRATOR, SIGNED_IN, own

FRAGMENTS = {"exports": "account/_exports.html"}


@page(get=own(Permission.ACCOUNT_READ))
def personal_data(request: HttpRequest) -> HttpResponse:
    return _show(request)


@page(post=own(Permission.ACCOUNT_MANAGE))
def export(request: HttpRequest) -> HttpResponse:
    actions.request_export(actor=person(request))
    messages.success(request, "Your export is being made. It appears here within moments.")
    return redirect("personal-data")


@page(post=own(Permission.ACCOUNT_MANAGE))
def erase(request: HttpRequest) -> HttpResponse:
    """Erase oneself: with the name typed again."""
    user = person(request)
    try:
        _erase(request, user)
    except actions.Refused as refused:
        return _show(request, problem=refused.sentence, status=409)
    request.session.flush()  # not logout(): its signal would write the name that has just gone
    response = show(request, "account/erased.html")
    response.delete_cookie(settings.SESSION_COOKIE_NAME)
    return response


@page(get=SIGNED_IN, post=SIGNED_IN)
def agree(request: HttpRequest) -> HttpResponse:
    """Show the text of the site, and take one's word."""
    text = or_not_found(consent.text_of_now(), "There is nothing to agree to.")
    user = person(request)
    if request.method == "POST":
        actions.agree(actor=user)
        return redirect(safe_next(request, request.POST.get("next", ""), reverse("home")))
    given = user.consents.filter(digest=text.digest).first()
    context = {"text": text.words, "given": given, "next": request.GET.get("next", "")}
    return show(request, "account/consent.html", context)


@page(get=HIDDEN_ADMINISTRATOR)
def of_person(request: HttpRequest, person_id: int) -> HttpResponse:
    return _show_other(request, _found(person_id))


@page(post=HIDDEN_ADMINISTRATOR)
def export_of_person(request: HttpRequest, person_id: int) -> HttpResponse:
    found = _found(person_id)
    actions.request_export(actor=person(request), user=found)
    messages.success(request, f"The export for {found} is being made. Only they can download it, under their account.")
    return redirect("person", person_id)


@page(post=HIDDEN_ADMINISTRATOR)
def erase_person(request: HttpRequest, person_id: int) -> HttpResponse:
    found = _found(person_id)
    try:
        row = _erase(request, found)
    except actions.Refused as refused:
        return _show_other(request, found, problem=refused.sentence, status=409)
    messages.success(request, f"Erased. In the audit stands {row.pseudonym} from now on.")
    return redirect("people")


def _erase(request: HttpRequest, user: User) -> ErasedPerson:
    confirm, with_runs = request.POST.get("confirm", "").strip(), request.POST.get("with_runs") == "on"
    return actions.erase_person(actor=person(request), user=user, confirm=confirm, with_runs=with_runs)


def _found(person_id: int) -> User:
    return or_not_found(User.objects.filter(pk=person_id, service_of=None).first(), "There is no such person.")


def _show(request: HttpRequest, *, problem: str = "", status: int = 200) -> HttpResponse:
    context = _about(person(request), problem)
    is_waiting = any(one.state == PersonalExport.State.WAITING for one in context["exports"])
    context |= {"may_download": True, "is_waiting": is_waiting}
    return show(request, "account/personal_data.html", context, fragments=FRAGMENTS, status=status)


def _show_other(request: HttpRequest, found: User, *, problem: str = "", status: int = 200) -> HttpResponse:
    memberships = found.memberships.select_related("project").order_by("project__name")
    context = {**_about(found, problem), "found": found, "memberships": memberships}
    return show(request, "people/person.html", context, status=status)


def _about(user: User, problem: str) -> dict[str, Any]:
    """Return what both pages show."""
    exports, why_not = PersonalExport.objects.filter(user=user), actions.why_not_erased(user)
    return {"exports": exports, "why_not": why_not, "num_runs": user.runs.count(), "problem": problem}

"""Page about another person, for administrators: an export for them, and their erasure."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from dashboard.pages.shared.frame import page, show
from dashboard.pages.shared.frame import person as who_asks
from runs import actions
from runs.models import PersonalExport, User
from runs.rights.access import or_not_found
from runs.rights.access.operations import HIDDEN_ADMINISTRATOR


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

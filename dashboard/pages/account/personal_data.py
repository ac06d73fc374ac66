"""Pages about one's own data: exports, erasure, and the text that one agrees to."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.shared.frame import page, person, safe_next, show
from runs import actions
from runs.models import PersonalExport, User
from runs.privacy import consent
from runs.rights.access import Permission, or_not_found
from runs.rights.access.operations import SIGNED_IN, own

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
        with_runs = request.POST.get("with_runs") == "on"
        confirm = request.POST.get("confirm", "").strip()
        actions.erase_person(actor=user, user=user, confirm=confirm, with_runs=with_runs)
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


def _show(request: HttpRequest, *, problem: str = "", status: int = 200) -> HttpResponse:
    user: User = person(request)
    exports = PersonalExport.objects.filter(user=user)
    context = {
        "exports": exports,
        "may_download": True,
        "is_waiting": any(one.state == PersonalExport.State.WAITING for one in exports),
        "why_not": actions.why_not_erased(user),
        "num_runs": user.runs.count(),
        "problem": problem,
    }
    return show(request, "account/personal_data.html", context, fragments=FRAGMENTS, status=status)

"""One's own account: tokens, password, theme; and the data of a person."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.shared.frame import answer, page, person, problems_of, safe_next, show
from runs import actions
from runs.actions.people.sign_in import set_name
from runs.models import ErasedPerson, PersonalExport, Project, Token, User
from runs.people.identity.sessions import SESSION_ROW, change_session_key, end_sessions
from runs.privacy import consent
from runs.rights.access import Permission, or_not_found, visible_projects
from runs.rights.access.operations import HIDDEN_ADMINISTRATOR, SIGNED_IN, own, thing

LIVES = (("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"), ("", "never"))
FRAGMENTS = {
    "tokens": "account/_tokens.html",
    "new-token": "account/_new_token.html",
    "password": "account/_password.html",
}


@page(get=own(Permission.ACCOUNT_READ))
def account(request: HttpRequest) -> HttpResponse:
    return _show(request)


@page(post=own(Permission.ACCOUNT_MANAGE))
def rename(request: HttpRequest) -> HttpResponse:
    name, user = request.POST.get("name", ""), person(request)
    try:
        set_name(actor=user, name=name)
    except ValidationError as error:
        return _show(request, typed_name=name, problems=problems_of(error), status=422)
    return answer(request, f"You are called {user}.", home="account")


@page(post=own(Permission.ACCOUNT_MANAGE))
def new_token(request: HttpRequest) -> HttpResponse:
    """Make a token and show its secret, this once."""
    name, days = request.POST.get("name", "").strip()[:80], request.POST.get("days", "")
    chosen, projects = request.POST.getlist("scope"), request.POST.getlist("project")
    expires_at = timezone.now() + timedelta(days=int(days)) if days in dict(LIVES) and days else None
    if not name:
        typed = {"days": days, "chosen_scopes": chosen, "chosen_projects": projects}
        return _show(request, token_problem="Say what it is for.", status=422, **typed)
    _, secret = actions.create_token(
        actor=person(request), name=name, scopes=chosen or None, projects=projects or None, expires_at=expires_at
    )
    return _show(request, secret=secret, token_name=name)


@page(post=thing(Permission.TOKENS_MANAGE, hides=True))
def revoke(request: HttpRequest, token_id: str) -> HttpResponse:
    token = actions.revoke_token(actor=person(request), token_id=token_id)
    return answer(request, f"Revoked token {token.name}: it opens nothing any more.", home="account")


@page(post=own(Permission.ACCOUNT_MANAGE))
def revoke_all(request: HttpRequest) -> HttpResponse:
    num = actions.revoke_tokens(actor=person(request), user=person(request))
    words = "1 token: it opens" if num == 1 else f"{num} tokens: they open"
    return answer(request, f"Revoked {words} nothing any more.", home="account")


@page(post=own(Permission.ACCOUNT_MANAGE))
@sensitive_post_parameters("password", "current")
def password(request: HttpRequest) -> HttpResponse:
    user = person(request)
    try:
        new, current = request.POST.get("password", ""), request.POST.get("current", "")
        actions.set_password(actor=user, password=new, current=current)
    except ValidationError as error:
        return _show(request, problems=problems_of(error), status=422)
    update_session_auth_hash(request, user)  # this session stays; the person's others end
    row = str(request.session.get(SESSION_ROW, ""))
    change_session_key(row, request.session.session_key or "")
    end_sessions(user, but=row)
    num_tokens = actions.live_tokens(actions.tokens_of(user, user)).count()
    return _show(request, is_password_set=True, num_live=num_tokens, revoke_words=revoke_words(num_tokens))


def revoke_words(num_tokens: int) -> str:
    them = "it" if num_tokens == 1 else "them"
    return f"Whatever uses {them} is locked out at once, the command line too. This cannot be undone."


@page(get=SIGNED_IN)
def from_admin(request: HttpRequest) -> HttpResponse:
    """The admin's own form for one's password: here it is one place, with one rule."""
    return redirect("account")


def token_view(token: Token, now: datetime) -> tuple[Token, bool, str]:
    """Return it, whether it has ended, and what it may do and where, in words."""
    words = [] if token.scopes is None else [", ".join(token.scopes)]
    if token.project_ids is not None:
        names = Project.objects.filter(pk__in=token.project_ids).values_list("name", flat=True)
        words.append(f"in {', '.join(names) or 'projects that are gone'}")
    return token, token.expires_at is not None and token.expires_at <= now, " ".join(words)


def _show(request: HttpRequest, *, status: int = 200, **context: object) -> HttpResponse:
    user, now = person(request), timezone.now()
    tokens = Token.objects.filter(user=user, revoked_at=None).select_related("by_token")
    around = {
        "tokens": [token_view(token, now) for token in tokens],
        "lives": LIVES,
        "scopes": list(Permission),
        "own_projects": visible_projects(user),
        "has_password": user.has_usable_password(),
        "memberships": user.memberships.select_related("project").order_by("project__name"),
    }
    return show(request, "account/account.html", {**around, **context}, fragments=FRAGMENTS, status=status)


# The data of a person, one's own and, for administrators, another's: exports, erasure; and the text that one agrees to.

EXPORTS = {"exports": "account/_exports.html"}


@page(get=own(Permission.ACCOUNT_READ))
def personal_data(request: HttpRequest) -> HttpResponse:
    return _show_data(request)


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
        return _show_data(request, problem=refused.sentence, status=409)
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


def _show_data(request: HttpRequest, *, problem: str = "", status: int = 200) -> HttpResponse:
    context = _about(person(request), problem)
    is_waiting = any(one.state == PersonalExport.State.WAITING for one in context["exports"])
    context |= {"may_download": True, "is_waiting": is_waiting}
    return show(request, "account/personal_data.html", context, fragments=EXPORTS, status=status)


def _show_other(request: HttpRequest, found: User, *, problem: str = "", status: int = 200) -> HttpResponse:
    memberships = found.memberships.select_related("project").order_by("project__name")
    context = {**_about(found, problem), "found": found, "memberships": memberships}
    return show(request, "people/person.html", context, status=status)


def _about(user: User, problem: str) -> dict[str, Any]:
    exports, why_not = PersonalExport.objects.filter(user=user), actions.why_not_erased(user)
    return {"exports": exports, "why_not": why_not, "num_runs": user.runs.count(), "problem": problem}

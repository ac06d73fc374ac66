"""One's own account: tokens, password, theme."""

from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.auth import update_session_auth_hash
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from runs import actions
from runs.models import Project, Token
from runs.people.identity.sessions import SESSION_ROW, change_session_key, end_sessions
from runs.rights.access import Permission, visible_projects
from runs.rights.access.operations import SIGNED_IN, own, thing

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


class TokenView(NamedTuple):
    token: Token
    has_ended: bool
    reach: str  # what it may do and where, in words


def token_view(token: Token, now: datetime) -> TokenView:
    """Describe a token for a list."""
    words = [] if token.scopes is None else [", ".join(token.scopes)]
    if token.project_ids is not None:
        names = Project.objects.filter(pk__in=token.project_ids).values_list("name", flat=True)
        words.append(f"in {', '.join(names) or 'projects that are gone'}")
    return TokenView(token, token.expires_at is not None and token.expires_at <= now, " ".join(words))


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

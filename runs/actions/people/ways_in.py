"""Table of everything that lets a person in, and what ends it: every way of taking a person out comes here. API tokens
are made here, too."""

import secrets
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from runs.actions.jobs import taking_name
from runs.models import (
    BrowserSession,
    Identity,
    Invitation,
    JoinToken,
    Membership,
    NoticeRule,
    Project,
    ProvisioningToken,
    Role,
    SignInLink,
    Token,
    User,
)
from runs.models.access import SharedLink, digest_of
from runs.rights import access
from runs.values.refused import Refused
from trainyard.formats.names import without_hidden

log = structlog.get_logger(__name__)

LONGEST = timedelta(days=366)  # that a token lasts of whom nobody asks whether they are there


class Way(NamedTuple):
    """Rows that let somebody in, or that somebody let others in by. ``user``: the model's column of the person."""

    model: type[Model]
    user: str
    end: Callable[[User], object]
    is_who_they_are: bool = False  # it stays with a person who is disabled, and not with an account that is another's


def end_rows(rows: Collection[BrowserSession]) -> None:
    """End these sessions, whoever they are of."""
    with transaction.atomic():
        Session.objects.filter(session_key__in=[row.session_key for row in rows]).delete()
        BrowserSession.objects.filter(pk__in=[row.pk for row in rows]).delete()
    for row in rows:
        log.info("session.ended", user=row.user_id, session=row.pk)


# What a maker, person or token, handed out, who may no longer make it.


def void_handed_out() -> int:
    """Delete the unused invitations and join tokens of whoever may no longer make them, and return how many.

    They open nothing in any case. Deleted, they do not come to life again when the person gets the role back.
    """
    now = timezone.now()
    invitations = Invitation.objects.filter(accepted_at=None, expires_at__gt=now)
    num_invitations, _ = invitations.exclude(pk__in=access.open_invitations().values("pk")).delete()
    tokens = JoinToken.objects.filter(used_at=None, expires_at__gt=now)
    num_tokens, _ = tokens.exclude(pk__in=access.join_tokens_that_open().values("pk")).delete()
    return num_invitations + num_tokens


@access.with_rights_held
def end_tokens(tokens: QuerySet[Token]) -> int:
    """Revoke these tokens, and all that they made, down the chain. Return how many of these opened something."""
    now = timezone.now()
    ending = list(tokens.filter(revoked_at=None).values_list("pk", flat=True))
    number = len(ending)
    while ending:
        Token.objects.filter(pk__in=ending).update(revoked_at=now)
        ending = list(Token.objects.filter(by_token__in=ending, revoked_at=None).values_list("pk", flat=True))
    void_handed_out()
    return number


def end_of(life: timedelta, maker: User) -> datetime:
    """Return when something that the person makes now ends: not after the token that they act by."""
    ends = timezone.now() + life
    by = maker.token.expires_at if maker.token else None
    return ends if by is None else min(ends, by)


WAYS_IN = (
    Way(BrowserSession, "user", lambda user: end_rows(list(user.browser_sessions.all()))),
    Way(Token, "user", lambda user: end_tokens(user.tokens.all())),
    Way(SignInLink, "user", lambda user: user.sign_in_links.filter(used_at=None).delete()),
    Way(Invitation, "created_by", lambda user: _made(Invitation, user).filter(accepted_at=None).delete()),
    Way(JoinToken, "created_by", lambda user: _made(JoinToken, user).filter(used_at=None, placement=None).delete()),
    Way(ProvisioningToken, "created_by", lambda user: _revoke(_made(ProvisioningToken, user))),
    Way(SharedLink, "created_by", lambda user: _revoke(user.shared_links.all())),
    Way(NoticeRule, "owner", lambda user: user.notice_rules.all().delete(), is_who_they_are=True),
    Way(Identity, "user", lambda user: user.identities.all().delete(), is_who_they_are=True),
    Way(Authenticator, "user", lambda user: Authenticator.objects.filter(user=user).delete(), is_who_they_are=True),
)


def _made(model: type[Model], user: User) -> QuerySet[Any]:
    return model._default_manager.filter(created_by=user)


def _revoke(rows: QuerySet[Any]) -> None:
    rows.filter(revoked_at=None).update(revoked_at=timezone.now())


@access.with_rights_held
def end_ways_in(user: User, *, is_handed_over: bool = False) -> None:
    """End all that lets the person in, and what they let others in by. ``is_handed_over``: the account is somebody
    else's from now on, so that their second factors and their accounts at providers go, too.

    The new password, which nobody can type, also ends what is kept in browsers alone: a sign-in that waits for its
    second factor, and sessions without a row.
    """
    user.set_unusable_password()
    with transaction.atomic():
        user.save(update_fields=["password"])
        for way in WAYS_IN:
            if is_handed_over or not way.is_who_they_are:
                way.end(user)
        void_handed_out()
    log.info("person.ways_in_ended", user=user.pk, is_handed_over=is_handed_over)


@access.with_rights_held
def disable(user: User) -> None:
    """Let nobody in as this person until they are enabled. Refused for the last administrator."""
    refuse_last_administrator(user)
    user.is_active = False
    user.save(update_fields=["is_active"])
    user.identities.update(is_disabled_by_provider=False)
    end_ways_in(user)


def refuse_last_administrator(user: User) -> None:
    """Refuse for the last administrator, in the transaction that unmakes them: two at once cannot both pass."""
    access.hold_rights()
    if access.is_last_administrator(user):
        raise Refused("last-administrator", "This is the last administrator. Make another one first.")


# API tokens: of people, and of a project's service accounts.


@access.with_rights_held
def create_token(
    *,
    actor: User,
    name: str,
    scopes: Sequence[str] | None = None,
    projects: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    user: User | None = None,
) -> tuple[Token, str]:
    """Return a new token and its secret, which is shown this once: of the actor, or of a service account.

    ``scopes`` and ``projects`` (names or ids) are all that it may do and where; None: whatever its owner may. A token
    that makes a token gives no more than it has, and no longer. In a session one without an end, or that lasts beyond
    LONGEST, asks for a proof that the actor is there. Raises ValidationError by field, NotFound for a project,
    ProofNeeded, Refused.
    """
    owner = user or actor
    _require_making(actor, owner)
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused("already-expired", "The token would have expired already.")
    project_ids = None
    if owner.service_of_id is not None:
        project_ids = [owner.service_of_id]
    elif projects is not None:
        project_ids = sorted({access.get_project(actor, one).pk for one in _some("projects", projects)})
    if actor.token is not None:
        expires_at = expires_at or actor.token.expires_at
    elif expires_at is None or expires_at > timezone.now() + LONGEST:
        access.require_presence(actor)
    secret = access.TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = Token(
        user=owner,
        name=without_hidden(name).strip() or "token",
        scopes=None if scopes is None else _checked(_some("scopes", scopes)),
        project_ids=project_ids,
        digest=digest_of(secret),
        expires_at=expires_at,
        by_token=actor.token,
    )
    if actor.token is not None:
        _require_within(token, actor.token)
    token.save()
    log.info("token.created", token=token.pk, user=owner.pk, actor=actor.pk, scopes=token.scopes)
    return token, secret


def revoke_token(*, actor: User, token_id: str) -> Token:
    """Revoke a token, and what it made: one's own, a service account's, and as an administrator anybody's. Raises
    NotFound for others."""
    token = Token.objects.select_related("user__service_of").filter(pk=token_id).first()
    if token is None or not may_revoke(actor, token):
        raise access.NotFound(f"You have no token {token_id!r}.")
    if token.user_id == actor.pk:
        access.require_account(actor, access.Permission.ACCOUNT_MANAGE)
    if end_tokens(Token.objects.filter(pk=token.pk)):
        token.refresh_from_db(fields=["revoked_at"])
        log.info("token.revoked", token=token.pk, user=token.user_id, actor=actor.pk)
    return token


def may_revoke(actor: User, token: Token) -> bool:
    if token.user_id == actor.pk:
        return True
    if (project := token.user.service_of) is not None:
        return access.can(actor, project, access.Permission.TOKENS_MANAGE)
    return access.is_administrator(actor)


def revoke_tokens(*, actor: User, user: User) -> int:
    """Revoke all tokens of a person, and what they made: one's own, and as an administrator anybody's. Return how many
    there were."""
    tokens = live_tokens(tokens_of(actor, user, access.Permission.ACCOUNT_MANAGE))
    log.info("token.all_revoked", user=user.pk, actor=actor.pk)
    return end_tokens(tokens)


def tokens_of(actor: User, user: User, wanted: access.Permission = access.Permission.ACCOUNT_READ) -> QuerySet[Token]:
    """Return the tokens of a person for whoever may see, or revoke, them. Raises Forbidden."""
    require_over_person(actor, user, wanted, "see or revoke the tokens of others")
    return Token.objects.filter(user=user)


def require_over_person(actor: User, person: User, wanted: access.Permission, what: str) -> None:
    """Raise Forbidden for who is neither the person, with what is ``wanted``, nor an administrator."""
    if person == actor:
        access.require_account(actor, wanted)
    elif not access.is_administrator(actor):
        raise access.Forbidden(f"Only an administrator may {what}.")


def live_tokens(tokens: QuerySet[Token]) -> QuerySet[Token]:
    """Return those of the tokens that open something, while their owner is active."""
    return tokens.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()), revoked_at=None)


def _require_making(actor: User, owner: User) -> None:
    if owner == actor:
        access.require_account(actor, access.Permission.ACCOUNT_MANAGE)
    elif owner.service_of is not None:
        require_over_account(actor, owner)
    else:
        raise access.Forbidden("Nobody makes tokens for other people.")


def require_over_account(actor: User, account: User) -> None:
    """Raise Forbidden for who may not act for the service account: nobody gets by its tokens what they have not."""
    project = account.service_of
    if project is None:
        raise access.Forbidden(f"{account} is no service account.")
    access.require(actor, project, access.Permission.TOKENS_MANAGE)
    if not access.permissions_in(account, project) <= access.permissions_in(actor, project):
        raise access.Forbidden(f"{account} may do more in project {project.name} than you may.")


def _some(field: str, values: Sequence[str]) -> Sequence[str]:
    if not values:
        raise ValidationError({field: "Name at least one, or leave it out for all."})
    return values


def _checked(names: Collection[str]) -> list[str]:
    known = access.known_scopes()
    if unknown := [name for name in names if name not in known]:
        raise ValidationError({"scopes": f"There is no scope {unknown[0]!r}. There are: {', '.join(known)}."})
    return sorted(set(names))


def _require_within(token: Token, by: Token) -> None:
    """Raise Forbidden where a token would get more than the one that makes it."""
    if more := access.scope_permissions(token.scopes) - access.scope_permissions(by.scopes):
        raise access.Forbidden(f"The token {by.name} cannot give what it has not: {', '.join(sorted(more))}.")
    if by.project_ids is not None and (token.project_ids is None or not {*token.project_ids} <= {*by.project_ids}):
        raise access.Forbidden(f"The token {by.name} is for other projects.")
    if by.expires_at is not None and (token.expires_at is None or token.expires_at > by.expires_at):
        raise access.Forbidden(f"The token {by.name} ends before that.")


# Service accounts: owners of tokens that are nobody's. They belong to a project and never sign in.

MAX_NAME = 60


@access.with_rights_held
def create_service_account(*, actor: User, project: Project, name: str, role: Role) -> User:
    """Make a service account with a role of the project that is no more than the actor's. Raises ValidationError for
    its name, Refused for a taken one."""
    access.require(actor, project, access.Permission.TOKENS_MANAGE)
    access.require_grant(actor, project, role)
    account = User(username=f"{project.name}.{name.strip()[:MAX_NAME]}", service_of=project)
    account.set_unusable_password()
    account.clean_fields(exclude=["password"])
    account.clean()
    with taking_name(f"There is already somebody named {account.username}."):
        account.save()
        Membership.objects.create(project=project, user=account, role=role)
    return account


@access.with_rights_held
def close_service_account(*, actor: User, account: User) -> None:
    """End the account for good: its tokens open nothing. What it launched keeps its name."""
    require_over_account(actor, account)
    with transaction.atomic():
        Membership.objects.filter(user=account).delete()
        disable(account)

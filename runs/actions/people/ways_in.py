"""Table of everything that lets a person in, and what ends it. Every way of taking a person out comes here."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog
from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from runs.models import BrowserSession, Identity, Invitation, JoinToken, ProvisioningToken, SignInLink, Token, User
from runs.models.access import SharedLink
from runs.rights.access import (
    hold_rights,
    is_last_administrator,
    join_tokens_that_open,
    open_invitations,
    with_rights_held,
)
from runs.values.refused import Refused

log = structlog.get_logger(__name__)


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
    num_invitations, _ = invitations.exclude(pk__in=open_invitations().values("pk")).delete()
    tokens = JoinToken.objects.filter(used_at=None, expires_at__gt=now)
    num_tokens, _ = tokens.exclude(pk__in=join_tokens_that_open().values("pk")).delete()
    return num_invitations + num_tokens


@with_rights_held
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
    Way(Invitation, "created_by", lambda user: Invitation.objects.filter(created_by=user, accepted_at=None).delete()),
    Way(
        JoinToken,
        "created_by",
        lambda user: JoinToken.objects.filter(created_by=user, used_at=None, placement=None).delete(),
    ),
    Way(
        ProvisioningToken,
        "created_by",
        lambda user: ProvisioningToken.objects.filter(created_by=user, revoked_at=None).update(
            revoked_at=timezone.now()
        ),
    ),
    Way(SharedLink, "created_by", lambda user: user.shared_links.update(revoked_at=timezone.now())),
    Way(Identity, "user", lambda user: user.identities.all().delete(), is_who_they_are=True),
    Way(Authenticator, "user", lambda user: Authenticator.objects.filter(user=user).delete(), is_who_they_are=True),
)


@with_rights_held
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


@with_rights_held
def disable(user: User) -> None:
    """Let nobody in as this person until they are enabled. Refused for the last administrator."""
    refuse_last_administrator(user)
    user.is_active = False
    user.save(update_fields=["is_active"])
    user.identities.update(is_disabled_by_provider=False)
    end_ways_in(user)


def refuse_last_administrator(user: User) -> None:
    """Refuse for the last administrator, in the transaction that unmakes them: two at once cannot both pass."""
    hold_rights()
    if is_last_administrator(user):
        raise Refused("last-administrator", "This is the last administrator. Make another one first.")

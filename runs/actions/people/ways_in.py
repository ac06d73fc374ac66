"""Table of everything that lets a person in, and what ends it. Every way of taking a person out comes here."""

from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog
from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model
from django.utils import timezone

from runs.actions.people.handed_out import end_tokens, void_handed_out
from runs.models import BrowserSession, Identity, Invitation, JoinToken, ProvisioningToken, SignInLink, Token, User
from runs.models.access import SharedLink
from runs.rights.access import hold_rights, is_last_administrator, with_rights_held
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

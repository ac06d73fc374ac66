"""Invitations and tokens of a maker, person or token, who may no longer make them: they are deleted or revoked."""

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from runs.models import Invitation, JoinToken, Token, User
from runs.rights.access import join_tokens_that_open, open_invitations, with_rights_held


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

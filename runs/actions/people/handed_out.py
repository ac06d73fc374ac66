"""What a person handed out, and what becomes of it when the person may no longer hand it out."""

from __future__ import annotations

from django.utils import timezone

from runs.access import join_tokens_that_open, open_invitations
from runs.models import Invitation, JoinToken


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

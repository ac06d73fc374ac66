"""Join tokens that let one machine in for its part of an attempt.

They are made from the server's secret, so that control can make the same again after it was killed between two steps.
Only their digests are stored.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils.crypto import salted_hmac

from runs.models import Attempt, JoinToken, Placement
from runs.models.access import digest_of
from runs.serving.certificates import pin

LIFE = timedelta(minutes=15)  # after the system was last seen with the job


def secret_of(placement: Placement) -> str:
    about = f"{placement.attempt_id}/{placement.pk}"
    made = salted_hmac("runs.engines.tokens", about, secret=settings.SECRET_KEY, algorithm="sha256")
    return f"join_{made.hexdigest()}"


def keep_tokens(attempt: Attempt, now: datetime) -> list[str]:
    """Make the attempt's tokens, or let them live on, and return their secrets in the order of the node ranks. One
    that was used stays used."""
    secrets = []
    for placement in attempt.placements.select_related("node"):
        secret = secret_of(placement)
        expires_at = now + LIFE
        JoinToken.objects.update_or_create(
            placement=placement,
            defaults={"expires_at": expires_at},
            create_defaults={
                "expires_at": expires_at,
                "cluster_id": placement.node.cluster_id,
                "digest": digest_of(secret),
            },
        )
        secrets.append(pin(secret))
    return secrets


def end_tokens(attempt: Attempt) -> None:
    JoinToken.objects.filter(placement__attempt=attempt).delete()

"""Tokens of SCIM clients: one kind of their own, which opens ``/scim/v2/`` alone. Without one, SCIM is off."""

import secrets
from datetime import timedelta

import structlog
from django.db.models import QuerySet
from django.utils import timezone

from runs.models import ProvisioningToken, User
from runs.models.access import digest_of
from runs.people.identity.providers import Provider
from runs.rights.access import is_administrator, or_not_found, require_administrator, require_presence

log = structlog.get_logger(__name__)

PREFIX = "ty_scim_"
USED_EVERY = timedelta(minutes=1)


def create_provisioning_token(*, actor: User, provider: Provider) -> tuple[ProvisioningToken, str]:
    """Return a new token for the provider's client, and its secret, which is shown this once."""
    require_administrator(actor)
    require_presence(actor)
    secret = PREFIX + secrets.token_urlsafe(32)
    token = ProvisioningToken.objects.create(provider=provider.id, digest=digest_of(secret), created_by=actor)
    log.info("scim.token_created", provider=provider.id, token=token.pk, actor=actor.pk)
    return token, secret


def revoke_provisioning_token(*, actor: User, token_id: str) -> ProvisioningToken:
    """Revoke a token. For anybody but an administrator there is none."""
    token = ProvisioningToken.objects.filter(pk=token_id).first() if is_administrator(actor) else None
    token = or_not_found(token, "There is no such token.")
    ProvisioningToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
    log.info("scim.token_revoked", provider=token.provider, token=token.pk, actor=actor.pk)
    return token


def live_provisioning_tokens() -> QuerySet[ProvisioningToken]:
    """Return the valid tokens: not revoked, and made by somebody who is still an administrator."""
    return ProvisioningToken.objects.filter(revoked_at=None, created_by__is_active=True, created_by__is_superuser=True)


def provider_of(secret: str, address: str) -> str | None:
    """Return whose token this is; None where it opens nothing."""
    token = live_provisioning_tokens().filter(digest=digest_of(secret)).first()
    if token is None:
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > USED_EVERY or token.last_address != address[:45]:
        ProvisioningToken.objects.filter(pk=token.pk).update(last_used_at=now, last_address=address[:45])
    return token.provider

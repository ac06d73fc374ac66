"""Person behind a secret: of a token, an invitation, or a join token; and until when it opens anything."""

import hashlib
import hmac
from collections.abc import Collection, Iterable
from datetime import timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from runs.models import Invitation, JoinToken, Token, User
from runs.models.access import digest_of
from runs.rights.access.clusters import can_manage_cluster
from runs.rights.access.permissions import Forbidden, NotFound, Permission
from runs.rights.access.roles import Someone, has_scope, may_grant, require_scope

TOKEN_PREFIX = "ty_"
MACHINE_PREFIX = f"{TOKEN_PREFIX}machine_"  # of what stands in client.toml, which is no token: see token_of_machine
BY_LIVE_TOKEN = Q(by_token=None) | Q(by_token__revoked_at=None)  # made in a session, or by a token not revoked
USED_EVERY = timedelta(minutes=1)  # how exactly a token's last use is known


def token_of_machine(secret: str) -> str:
    """Return the token that the secret in ``client.toml`` is exchanged for, once it is known who sent it. Only the
    server can tell it from the secret."""
    return TOKEN_PREFIX + hmac.new(settings.SECRET_KEY.encode(), secret.encode(), hashlib.sha256).hexdigest()


def user_of_token(secret: str, address: str = "") -> User | None:
    """Return whose token this is, with the token as its ``token``; None when it is unknown, revoked, expired, or its
    owner was disabled. ``address``: from where it is used."""
    return users_of_tokens([secret], address).get(secret)


def users_of_tokens(secrets: Collection[str], address: str = "") -> dict[str, User]:
    """Return who is behind each secret, without those that open nothing (see user_of_token)."""
    by_digest = {digest_of(secret): secret for secret in secrets}
    now = timezone.now()
    live = Token.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None, user__is_active=True)
    tokens = list(live.select_related("user").filter(digest__in=by_digest))
    stale = [
        token.pk
        for token in tokens
        if token.last_used_at is None
        or now - token.last_used_at > USED_EVERY
        or (address and token.last_address != address)
    ]
    if stale:
        changes = {"last_used_at": now, **({"last_address": address[:45]} if address else {})}
        Token.objects.filter(pk__in=stale).update(**changes)
    for token in tokens:
        token.user.token = token
    return {by_digest[token.digest]: token.user for token in tokens}


def is_administrator(user: Someone) -> bool:
    """Return whether they manage people, groups and everybody's tokens."""
    return isinstance(user, User) and user.is_active and user.is_superuser and has_scope(user, Permission.PEOPLE_MANAGE)


def is_last_administrator(user: User) -> bool:
    """Return whether there is nobody else who manages people."""
    others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    return user.is_superuser and not others.exists()


def require_administrator(user: Someone) -> None:
    if not is_administrator(user):
        require_scope(user, Permission.PEOPLE_MANAGE)
        raise Forbidden("Only an administrator may do this.")


def open_invitations() -> QuerySet[Invitation]:
    """Return those not used and not too old, from people who may still invite to that role."""
    return Invitation.objects.filter(pk__in=_still_allowed(_unused_invitations()))


def _unused_invitations() -> QuerySet[Invitation]:
    found = Invitation.objects.filter(accepted_at=None, expires_at__gt=timezone.now(), created_by__is_active=True)
    return found.filter(BY_LIVE_TOKEN).select_related("project", "created_by")


def _still_allowed(invitations: Iterable[Invitation]) -> list[str]:
    return [one.pk for one in invitations if one.created_by and may_grant(one.created_by, one.project, one.role)]


def get_invitation(secret: str) -> Invitation:
    """Return the open invitation with that secret. Raises NotFound where there is none, or none any more."""
    invitation = _unused_invitations().filter(digest=digest_of(secret)).first()
    if invitation is None or not _still_allowed([invitation]):
        raise NotFound("This invitation is unknown, already used, withdrawn, or too old.")
    return invitation


def join_tokens_that_open() -> QuerySet[JoinToken]:
    """Return those not used and not too old, from people who may still change their cluster."""
    found = JoinToken.objects.filter(BY_LIVE_TOKEN, used_at=None, expires_at__gt=timezone.now())
    from_people = found.filter(placement=None, created_by__is_active=True).select_related("created_by", "cluster")
    allowed = [one.pk for one in from_people if one.created_by and can_manage_cluster(one.created_by, one.cluster)]
    own = Q(for_pool=True) | Q(placement__attempt__ended_at=None, placement__isnull=False)  # control made them
    return found.filter(Q(pk__in=allowed) | own)

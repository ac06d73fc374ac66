"""The first start, one-time links, and API tokens."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

import structlog
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from runs.access import TOKEN_PREFIX, Forbidden, NotFound
from runs.models import Cluster, Membership, Project, Role, SignInLink, Token, User
from runs.models.access import digest_of
from runs.refused import Refused
from runs.serving import login_limits as guessing
from trainyard.formats.names import without_hidden

log = structlog.get_logger(__name__)

LINK_LIFE = timedelta(hours=24)


def first_start() -> User | None:
    """Make the first person, project and cluster of an empty house; None when it is not empty.

    Nobody gets a default password: the way in is a link of ``make_sign_in_link``.
    """
    with transaction.atomic():
        if User.objects.exists():
            return None
        owner = User(username="owner", is_staff=True, is_superuser=True)
        owner.set_unusable_password()
        owner.save()
        project, _ = Project.objects.get_or_create(name="default")
        Membership.objects.get_or_create(project=project, user=owner, defaults={"role": Role.OWNER})
        cluster, _ = Cluster.objects.get_or_create(name="local", defaults={"interactive": True})
        cluster.projects.add(project)
        return owner


class Paused(Refused):
    """Too many passwords were tried. ``wait_s`` seconds later one may try again."""

    def __init__(self, wait_s: int) -> None:
        super().__init__("too-many-attempts", f"Too many attempts. Try again in {_in_words(wait_s)}.")
        self.wait_s = wait_s


def sign_in(*, username: str, password: str, address: str, browser: str = "") -> User | None:
    """Return who has that name and password, None where nobody has. Raises Paused, and Busy (password_hashing).

    ``browser``: the name of one in which that person has signed in before; "" for any other.
    """
    account = User.normalize_username(username)
    if wait_s := guessing.claim(account=account, address=address, browser=browser):
        raise Paused(wait_s)
    user = authenticate(username=username, password=password)
    if not isinstance(user, User):
        return None
    guessing.forget(account=account, browser=browser)
    return user


def make_sign_in_link(*, user: User) -> str:
    """Return the secret of a link that signs the person in, once, within a day."""
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(user=user, digest=digest_of(secret), expires_at=timezone.now() + LINK_LIFE)
    return secret


def use_sign_in_link(secret: str) -> User | None:
    """Return the user of the link; None if it is unknown, used, or too old. Of two uses at once one gets None."""
    now = timezone.now()
    links = SignInLink.objects.filter(digest=digest_of(secret), used_at=None, expires_at__gt=now, user__is_active=True)
    link = links.select_related("user").first()
    if link is None or not links.update(used_at=now):
        return None
    return link.user


def create_token(*, actor: User, name: str, expires_at: datetime | None = None) -> tuple[Token, str]:
    """Return a new token of the person and its secret, which is shown this once."""
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused("already-expired", "The token would have expired already.")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = Token.objects.create(
        user=actor, name=without_hidden(name).strip() or "token", digest=digest_of(secret), expires_at=expires_at
    )
    return token, secret


def revoke_token(*, actor: User, token_id: str) -> Token:
    """Revoke a token: one's own, and as an administrator anybody's. Raises NotFound for any other."""
    tokens = Token.objects.all() if _is_administrator(actor) else Token.objects.filter(user=actor)
    token = tokens.filter(pk=token_id).first()
    if token is None:
        raise NotFound(f"You have no token {token_id!r}.")
    if token.revoked_at is None:
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        log.info("token.revoked", token=token.pk, user=token.user_id, actor=actor.pk)
    return token


def revoke_tokens(*, actor: User, user: User) -> int:
    """Revoke all tokens of a person: one's own, and as an administrator anybody's. Return how many there were."""
    tokens = live_tokens(tokens_of(actor, user))
    log.info("token.all_revoked", user=user.pk, actor=actor.pk)
    return tokens.update(revoked_at=timezone.now())


def tokens_of(actor: User, user: User) -> QuerySet[Token]:
    """Return the tokens of a person for whoever may see and revoke them. Raises Forbidden."""
    if user != actor and not _is_administrator(actor):
        raise Forbidden("Only an administrator may see or revoke the tokens of others.")
    return Token.objects.filter(user=user)


def live_tokens(tokens: QuerySet[Token]) -> QuerySet[Token]:
    """Return those of the tokens that open something, while their owner is active."""
    return tokens.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()), revoked_at=None)


def _is_administrator(user: User) -> bool:
    return user.is_active and user.is_superuser


def set_password(*, actor: User, password: str, current: str = "") -> None:
    """Give oneself a password, with the ``current`` one where there is one. Raises ValidationError by field.

    Links that were made before and not used open nothing any more. Tokens stay: revoke_tokens() is for whoever wants.
    """
    problems: dict[str, list[str]] = {}
    if actor.has_usable_password() and (words := _why_not_current(actor, current)):
        problems["current"] = [words]
    try:
        validate_password(password, actor)
    except ValidationError as error:
        problems["password"] = error.messages
    if problems:
        raise ValidationError(problems)
    actor.set_password(password)
    with transaction.atomic():
        actor.save(update_fields=["password"])
        SignInLink.objects.filter(user=actor, used_at=None).delete()


def _why_not_current(actor: User, password: str) -> str:
    """Return why this is not taken for the person's password; "" where it is. Guesses in a session count, too."""
    browser = "signed-in"
    if wait_s := guessing.claim(account=actor.username, address=None, browser=browser):
        return Paused(wait_s).sentence
    if not actor.check_password(password):
        return "This is not your password."
    guessing.forget(account=actor.username, browser=browser)
    return ""


def _in_words(seconds: int) -> str:
    if seconds < 90:
        return "1 second" if seconds == 1 else f"{seconds} seconds"
    minutes = -(-seconds // 60)
    return f"{minutes} minutes" if minutes < 90 else f"{-(-minutes // 60)} hours"

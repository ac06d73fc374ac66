"""The first start, names, passwords, and one-time links."""

import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, Value
from django.db.models.functions import Concat, Trim
from django.utils import timezone

from runs.models import Cluster, Membership, Project, Role, SignInLink, User
from runs.models.access import digest_of
from runs.rights.access import Forbidden, require_presence
from runs.serving import login_limits as guessing
from runs.values.refused import Refused
from trainyard.formats.names import without_hidden

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
    if not isinstance(user, User) or user.is_service or keepers_of(user):
        return None
    guessing.forget(account=account, browser=browser)
    return user


def make_sign_in_link(*, user: User) -> str:
    """Return the secret of a link that signs the person in, once, within a day. Refused for a service account."""
    if user.is_service:
        raise Refused("service-account", f"{user} is a service account: it has tokens, and never signs in.")
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(user=user, digest=digest_of(secret), expires_at=timezone.now() + LINK_LIFE)
    return secret


def use_sign_in_link(secret: str) -> User | None:
    """Return the user of the link; None if it is unknown, used, or too old. Of two uses at once one gets None."""
    now = timezone.now()
    links = SignInLink.objects.filter(digest=digest_of(secret), used_at=None, expires_at__gt=now, user__is_active=True)
    links = links.filter(user__service_of=None)
    link = links.select_related("user").first()
    return None if link is None or not links.update(used_at=now) else link.user


def set_name(*, actor: User, name: str) -> None:
    """Set what one is called; "" is one's user name. Raises ValidationError for what another person is called."""
    if keepers := keepers_of(actor):
        raise Refused("kept-by-provider", f"{min(keepers.values())} keeps your account: your name is changed there.")
    name = without_hidden(" ".join(name.split()))[:150]
    people = User.objects.exclude(pk=actor.pk).annotate(whole=Trim(Concat("first_name", Value(" "), "last_name")))
    if name and people.filter(Q(username__iexact=name) | Q(whole__iexact=name)).exists():
        raise ValidationError({"name": "Another person is called so."})
    actor.first_name, actor.last_name = name, ""
    actor.save(update_fields=["first_name", "last_name"])


def set_password(*, actor: User, password: str, current: str = "") -> None:
    """Give oneself a password, with the ``current`` one where there is one. Raises ValidationError by field.
    The first one asks for a proof that they are there: ProofNeeded.

    Links that were made before and not used open nothing any more. Tokens stay: revoke_tokens() is for whoever wants.
    """
    if keepers := keepers_of(actor):
        sentence = f"{min(keepers.values())} keeps your account: you sign in there, without a password here."
        raise Refused("kept-by-provider", sentence)
    if actor.is_service or actor.token is not None:
        raise Forbidden("A password is set in a session of one's own.")
    problems = {}
    if not actor.has_usable_password():
        require_presence(actor)
    elif words := _why_not_current(actor, current):
        problems["current"] = [words]
    if problems := problems | password_problems(password, actor):
        raise ValidationError(problems)
    actor.set_password(password)
    with transaction.atomic():
        actor.save(update_fields=["password"])
        SignInLink.objects.filter(user=actor, used_at=None).delete()


def password_problems(password: str, user: User) -> dict[str, list[str]]:
    """Return why the password is not accepted, by field."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        return {"password": error.messages}
    return {}


def keepers_of(user: User) -> dict[str, str]:
    """Return the names, by id, of the providers through which alone the person comes in; none where there are other
    ways, too. An administrator may have them, for the day on which the provider is away."""
    if user.is_superuser:
        return {}
    kept_by = set(user.identities.filter(keeps_person=True).values_list("provider", flat=True))
    return {one.id: one.name for one in settings.SIGN_IN.providers if one.id in kept_by}


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

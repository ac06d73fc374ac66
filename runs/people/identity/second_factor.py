"""People who need a second factor and have none. Such a person is led to set one up before anything else."""

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.core.cache import cache
from django.db.models import Q

from runs.models import GroupRole, Membership, Project, Role, User
from runs.rights.access import Permission, require
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.sealed import FACTOR_FIELDS, factor_place, open_text, seal_text
from runs.values.refused import Refused

log = structlog.get_logger(__name__)

SENTENCE = "You need a second factor. Set one up on your account's Security page first."
KNOWN_FOR_S = 5  # for so long a process remembers which projects ask for one
CACHED = "second-factor-projects"


def is_missing(user: User) -> bool:
    """Return whether the person needs a second factor and has none."""
    return user.pk in missing([user])


def missing(users: Collection[User]) -> set[int]:
    """Return the ids of those who need a second factor and have none: for many people in few queries."""
    people = {user.pk: user for user in users if user.is_active and not user.is_service}
    asked = settings.SIGN_IN.second_factor
    staff = {user.pk for user in people.values() if user.is_staff or user.is_superuser}
    needing = set(people) if asked == "everybody" else staff if asked == "staff" else set()
    if asking := projects_asking():
        needing |= _asked_by_projects(people.keys() - needing, asking)
    if not needing:
        return set()
    return needing - set(Authenticator.objects.filter(user__in=needing).values_list("user_id", flat=True))


def projects_asking() -> dict[str, str]:
    """Return the weakest role from which on each asking project needs one of its members."""
    found: dict[str, str] | None = cache.get(CACHED)
    if found is None:
        found = dict(Project.objects.filter(second_factor_from__in=Role.values).values_list("pk", "second_factor_from"))
        cache.set(CACHED, found, KNOWN_FOR_S)
    return found


def ask_from(*, actor: User, project: Project, role: str) -> None:
    """Let members with that role or a stronger one need a second factor; "" for nobody. For owners."""
    require(actor, project, Permission.OWNERS_MANAGE)
    if role not in ("", *Role.values):
        raise Refused("bad-role", f"There is no role {role!r}.")
    project.second_factor_from = role
    project.save(update_fields=["second_factor_from"])
    cache.delete(CACHED)


def remove_all(user: User) -> None:
    """Forget every second factor of somebody who lost theirs."""
    Authenticator.objects.filter(user=user).delete()
    log.info("second_factor.all_removed", user=user.pk)


def _asked_by_projects(user_ids: Collection[int], asking: dict[str, str]) -> set[int]:
    own = Membership.objects.filter(user__in=user_ids, project__in=asking).values_list("user_id", "project_id", "role")
    groups = GroupRole.objects.filter(Q(project__in=asking) | Q(project=None), group__user__in=user_ids)
    order = Role.values  # the strongest first
    return {
        user_id
        for user_id, project_id, role in [*own, *groups.values_list("group__user", "project_id", "role")]
        if any(order.index(role) <= order.index(asking[one]) for one in ([project_id] if project_id else asking))
    }


# Seeds of second factors, in envelopes that are bound to the person: of an authenticator app, and of recovery codes.
#
# allauth asks for a seed by its stored text alone. So whoever has it check a code says first whose seeds may be
# opened; the key management service is asked then, and not while a transaction keeps others out.


# Opens seeds of one person, each once, by its stored text.
_open: ContextVar[Callable[[str], str] | None] = ContextVar("trainyard_open_seeds", default=None)


def seal_seed(user: User, seed: str) -> str:
    """Raises KeyProblem."""
    return seal_text(factor_place(user.pk), seed)


def open_seed(user: User, text: str) -> str:
    """Raises KeyProblem."""
    return open_text(factor_place(user.pk), text)


@contextmanager
def seeds_of(user: User) -> Iterator[None]:
    """Let allauth read the person's seeds inside. Raises KeyProblem where one does not open."""
    opened = functools.cache(functools.partial(open_text, factor_place(user.pk)))
    for row in Authenticator.objects.filter(user=user):
        for field in FACTOR_FIELDS:
            if text := row.data.get(field):
                opened(text)
    token = _open.set(opened)
    try:
        yield
    finally:
        _open.reset(token)


def read_seed(text: str) -> str:
    """Return the seed that is stored so, of the person whose seeds are open. Raises KeyProblem."""
    opened = _open.get()
    if opened is None:
        raise KeyProblem("Nobody's second factors are being checked now.")
    return opened(text)

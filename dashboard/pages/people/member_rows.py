"""The members of a project as its page lists them: there may be hundreds, and those with the same role look alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.pages.shared.frame import person
from dashboard.pages.shared.stencil import Stencil
from runs.access import Permission, permissions_of
from runs.models import CustomRole, Membership, Project, Role

COLUMNS = ("role", "custom_role_id", "user_id", "user__username", "user__first_name", "user__last_name", "user__email",
           "user__service_of_id")  # fmt: skip
VALUES = ("key", "initials", "name", "username", "email", "person_url", "role_url", "remove_url", "csrf_token")
ANYBODY = 0  # in a URL, where the person's number comes


class Kind(NamedTuple):
    """What the rows of several members have in common."""

    role: Role
    custom_role: CustomRole | None
    may_change: bool
    is_me: bool
    is_service: bool
    has_words: bool  # below the name
    has_email: bool


def member_rows(
    request: HttpRequest, project: Project, held: frozenset[Permission], roles: Sequence[tuple[str, str, str]]
) -> list[SafeString]:
    """Return the rows. ``held`` is what the person who asks may do, ``roles`` what they may give."""
    custom_roles = list(project.custom_roles.all())
    custom_by_key = {one.pk: one for one in custom_roles}
    may_manage, me = Permission.MEMBERS_MANAGE in held, person(request)

    @cache
    def may_change(role: Role, custom: CustomRole | None) -> bool:
        return may_manage and permissions_of(role, custom.permissions if custom else None) <= held

    @cache
    def stencil(kind: Kind) -> Stencil:
        same = {**kind._asdict(), "roles": roles, "custom_roles": custom_roles, "project": project}
        return Stencil("people/_member.html", VALUES, may_see_data=me.is_superuser and not kind.is_service, **same)

    urls = {
        "person_url": reverse("person", args=(ANYBODY,)),
        "role_url": reverse("change-role", args=(project.pk, ANYBODY)),
        "remove_url": reverse("remove-member", args=(project.pk, ANYBODY)),
    }
    token, rows = get_token(request), []
    members = Membership.objects.filter(project=project).order_by("user__username").values_list(*COLUMNS)
    for role, custom_key, key, username, first_name, last_name, email, service_of in members:
        custom, whole_name = custom_by_key.get(custom_key), f"{first_name} {last_name}".strip()
        kind = Kind(
            role=Role(role),
            custom_role=custom,
            may_change=may_change(Role(role), custom),
            is_me=key == me.pk,
            is_service=service_of is not None,
            has_words=bool(email or whole_name),
            has_email=bool(email),
        )
        mine = {name: url.replace(f"/{ANYBODY}/", f"/{key}/") for name, url in urls.items()}
        words = {"initials": username[:2], "name": whole_name or username, "username": username, "email": email}
        rows.append(stencil(kind).fill(key=key, csrf_token=token, **words, **mine))
    return rows

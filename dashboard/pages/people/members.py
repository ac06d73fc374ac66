"""The members of a project as a table."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Concat, Lower, Trim
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString

from dashboard.pages.shared.drawn import age, clipped
from dashboard.pages.shared.frame import person
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.sheet import Kind, Sheet
from dashboard.pages.shared.stencil import Stencil
from runs.models import CustomRole, Membership, Project, Role
from runs.rights.access import MEANINGS, Permission, permissions_in, permissions_of

COLUMNS = ("pk", "role", "custom_role_id", "created_at", "user_id", "user__username", "user__first_name",
           "user__last_name", "user__email", "user__service_of_id")  # fmt: skip
ANYBODY = 0  # in a URL, where the person's number comes
SHOWN = Trim(Concat("user__first_name", Value(" "), "user__last_name"))
BY_NAME = Lower(Case(When(Q(user__first_name="", user__last_name=""), then=F("user__username")), default=SHOWN))
BY_ROLE = Case(*(When(role=role, then=at) for at, role in enumerate(Role)), default=len(Role))


class Member(NamedTuple):
    """A member as the row shows it."""

    name: str
    suffix: str  # behind the name
    url: str  # of the page about this person; empty for who may not see it
    username: str
    email: str
    role: SafeString  # a form for who may change it
    since: datetime


def _name(member: Member) -> str:
    name = f'<span class="name clip" title="{escape(member.name)}">{escape(member.name)}</span>'
    link = f'<a class="clip" tabindex="-1" href="{member.url}" data-open>{name}</a>' if member.url else name
    return f'<div class="name-line">{link}{member.suffix}</div>'


KINDS: dict[str, Kind[Member]] = {
    "name": Kind("Name", 180, _name, sort="shown", phone=""),
    "username": Kind("Username", 130, lambda one: clipped(one.username), sort="user__username"),
    "email": Kind("E-mail", 180, lambda one: clipped(one.email), sort="user__email"),
    "role": Kind("Role", 190, lambda one: one.role, sort="rank", phone=""),
    "since": Kind("Since", 100, lambda one: f'<span class="muted">{age(one.since)}</span>', sort="created_at"),
}


class MemberTable:
    """The members of a project as the address asks for them."""

    def __init__(self, request: HttpRequest, project: Project) -> None:
        self._request, self._project, self._words = request, project, request.GET.get("q", "").strip()[:200]
        self._held = permissions_in(request.user, project)
        kept = {"project": project.name, "q": self._words}
        self._sheet = Sheet(request, "Members", "member", KINDS, Sort("name", False), kept=kept)

    @property
    def roles(self) -> list[tuple[str, str, str]]:
        """The roles that whoever asks may give: value, label and meaning."""
        return [(one.value, one.label, MEANINGS[one]) for one in Role if permissions_of(one) <= self._held]

    def part(self) -> HttpResponse | None:
        return self._sheet.rows_answer(self._keys, self._rows)

    def context(self) -> dict[str, object]:
        return {**self._sheet.context(self._keys, self._rows), "q": self._words}

    @property
    def _keys(self) -> list[str]:
        found: QuerySet[Membership] = self._project.memberships.annotate(shown=BY_NAME, rank=BY_ROLE)
        for word in self._words.split():
            names = ("username", "first_name", "last_name", "email")
            found = found.filter(Q(*((f"user__{one}__icontains", word) for one in names), _connector=Q.OR))
        return [str(key) for key in found.order_by(*self._sheet.order, "pk").values_list("pk", flat=True)]

    def _rows(self, keys: Sequence[str]) -> list[tuple[GridRow, Member]]:
        me, token = person(self._request), get_token(self._request)
        may_manage, roles = Permission.MEMBERS_MANAGE in self._held, self.roles
        custom_roles = list(self._project.custom_roles.all())
        custom_by_key = {one.pk: one for one in custom_roles}

        @cache
        def may_change(role: Role, custom: CustomRole | None) -> bool:
            return may_manage and permissions_of(role, custom.permissions if custom else None) <= self._held

        @cache
        def role_of(role: Role, custom: CustomRole | None) -> Stencil:
            same = {"roles": roles, "custom_roles": custom_roles, "role": role, "custom_role": custom}
            names = ("name", "role_url", "csrf_token")
            return Stencil("people/_role.html", names, may_change=may_change(role, custom), **same)

        @cache
        def removal(is_me: bool) -> Stencil:
            names = ("name", "remove_url", "csrf_token")
            return Stencil("people/_remove.html", names, is_me=is_me, project=self._project)

        found, base = {}, reverse("change-role", args=(self._project.pk, ANYBODY))
        for row in self._project.memberships.filter(pk__in=keys).values_list(*COLUMNS):
            pk, role, custom_key, since, number, username, first, last, email, service_of = row
            custom, is_me, name = custom_by_key.get(custom_key), number == me.pk, f"{first} {last}".strip() or username
            same = {"name": name, "csrf_token": token}
            changed = base.replace(f"/{ANYBODY}/", f"/{number}/")
            words = "you" if is_me else "service account" if service_of else ""
            member = Member(
                name=name,
                suffix=f'<span class="muted">({words})</span>' if words else "",
                url=reverse("person", args=(number,)) if me.is_superuser and not service_of else "",
                username=username,
                email=email,
                role=role_of(Role(role), custom).fill(role_url=changed, **same),
                since=since,
            )
            can_go = is_me or may_change(Role(role), custom)
            remove = removal(is_me).fill(remove_url=changed.replace("/role/", "/remove/"), **same) if can_go else ""
            found[str(pk)] = (GridRow(str(pk), name, (), actions=remove), member)
        return [found[key] for key in keys if key in found]

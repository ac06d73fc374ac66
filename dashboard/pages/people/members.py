"""The members of a project as a table."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Concat, Lower, Trim
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils.html import escape

from dashboard.pages.shared.drawn import age, clipped
from dashboard.pages.shared.frame import person
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.sheet import Kind, Sheet
from dashboard.pages.shared.stencil import Stencil
from runs.models import CustomRole, Membership, Project, Role
from runs.rights.access import MEANINGS, Permission, permissions_in, permissions_of

ANYBODY = 0  # in a URL, where the person's number comes
WHOLE_NAME = Trim(Concat("user__first_name", Value(" "), "user__last_name"))
BY_NAME = Lower(Case(When(Q(user__first_name="", user__last_name=""), then=F("user__username")), default=WHOLE_NAME))
BY_ROLE = Case(*(When(role=role, then=at) for at, role in enumerate(Role)), default=len(Role))
NAMES = ("username", "first_name", "last_name", "email")


class Member(NamedTuple):
    one: Membership
    name: str  # markup
    role: str  # a form for who may change it


KINDS: dict[str, Kind[Member]] = {
    "name": Kind("Name", 180, lambda member: member.name, sort="shown", phone=""),
    "username": Kind("Username", 130, lambda member: clipped(member.one.user.username), sort="user__username"),
    "email": Kind("E-mail", 180, lambda member: clipped(member.one.user.email), sort="user__email"),
    "role": Kind("Role", 190, lambda member: member.role, sort="rank", phone=""),
    "since": Kind(
        "Since", 100, lambda member: f'<span class="muted">{age(member.one.created_at)}</span>', sort="created_at"
    ),
}


class MemberTable:
    """The members of a project as the address asks for them."""

    def __init__(self, request: HttpRequest, project: Project) -> None:
        self._request, self._project, self._held = request, project, permissions_in(request.user, project)
        first = Sort("name", False)
        self._sheet = Sheet(request, "Members", "member", KINDS, first, kept={"project": project.name})
        # The roles that whoever asks may give: value, label and meaning.
        self.roles = [(one.value, one.label, MEANINGS[one]) for one in Role if permissions_of(one) <= self._held]

    def part(self) -> HttpResponse | None:
        return self._sheet.rows_answer(self._keys, self._rows)

    def context(self) -> dict[str, object]:
        return self._sheet.context(self._keys, self._rows)

    @property
    def _keys(self) -> list[str]:
        found = self._project.memberships.annotate(shown=BY_NAME, rank=BY_ROLE)
        for word in self._sheet.words.split():
            found = found.filter(Q(*((f"user__{one}__icontains", word) for one in NAMES), _connector=Q.OR))
        return [str(key) for key in found.order_by(*self._sheet.order, "pk").values_list("pk", flat=True)]

    def _rows(self, keys: Sequence[str]) -> list[tuple[GridRow, Member]]:
        me, token, held = person(self._request), get_token(self._request), self._held
        base = reverse("change-role", args=(self._project.pk, ANYBODY))
        same = {"roles": self.roles, "custom_roles": list(self._project.custom_roles.all()), "project": self._project}

        @cache
        def drawn(template: str, **kind: Any) -> Stencil:
            return Stencil(template, ("name", "url", "csrf_token"), **same, **kind)

        @cache
        def may_change(role: Role, custom: CustomRole | None) -> bool:
            may_hold = permissions_of(role, custom.permissions if custom else None)
            return Permission.MEMBERS_MANAGE in held and may_hold <= held

        found = {}
        for one in self._project.memberships.filter(pk__in=keys).select_related("user", "custom_role"):
            role, custom, user, is_me = Role(one.role), one.custom_role, one.user, one.user_id == me.pk
            name, can_change = user.get_full_name() or user.username, may_change(role, custom)
            url = base.replace(f"/{ANYBODY}/", f"/{user.pk}/")
            values = {"name": name, "csrf_token": token}
            form = drawn("people/_role.html", role=role, custom_role=custom, may_change=can_change)
            gone = drawn("people/_remove.html", is_me=is_me).fill(url=url.replace("/role/", "/remove/"), **values)
            words = "(you)" if is_me else "(service account)" if user.service_of_id else ""
            shown = f'<span class="name clip" title="{escape(name)}">{escape(name)}</span>'
            if me.is_superuser and not user.service_of_id:
                shown = (
                    f'<a class="clip" tabindex="-1" href="{reverse("person", args=(user.pk,))}" data-open>{shown}</a>'
                )
            shown = f'<div class="name-line">{shown}<span class="muted">{words}</span></div>'
            row = GridRow(str(one.pk), name, (), actions=gone if is_me or can_change else "")
            found[row.key] = (row, Member(one, shown, form.fill(url=url, **values)))
        return [found[key] for key in keys if key in found]

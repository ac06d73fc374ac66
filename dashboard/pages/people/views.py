"""The people of a project: members and their roles, invitations that are open."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Concat, Lower, Trim
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from dashboard.pages.shared.drawn import age, clipped
from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from dashboard.pages.shared.gauges import time_view
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.sheet import Kind, Sheet
from dashboard.pages.shared.stencil import Stencil
from runs import actions
from runs.models import CustomRole, Membership, Project, Role, Run, StoredData, User
from runs.privacy.retention import in_words, usage_of
from runs.records.time_use.sums import time_of_all
from runs.rights.access import (
    MEANINGS,
    Permission,
    can_create_projects,
    get_project,
    open_invitations,
    or_not_found,
    permissions_in,
    permissions_of,
    visible_projects,
)
from runs.rights.access.operations import lists, site, thing

ANYBODY = 0  # in a URL, where the person's number comes
WHOLE_NAME = Trim(Concat("user__first_name", Value(" "), "user__last_name"))
BY_NAME = Lower(Case(When(Q(user__first_name="", user__last_name=""), then=F("user__username")), default=WHOLE_NAME))
BY_ROLE = Case(*(When(role=role, then=at) for at, role in enumerate(Role)), default=len(Role))
NAMES = ("username", "first_name", "last_name", "email")
FRAGMENTS = {
    "invitations": "people/_invitations.html",
    "invite": "people/_invite.html",
    "git-keys": "people/_git_keys.html",
    "secrets": "people/_secrets.html",
    "groups": "people/_groups.html",
    "custom-roles": "people/_custom_roles.html",
    "accounts": "people/_accounts.html",
}
PARTS = {"members": "Members", "access": "Groups and roles", "secrets": "Secrets and keys", "time": "Time and storage"}


@page(get=lists(Permission.MEMBERS_READ))
def people(request: HttpRequest) -> HttpResponse:
    projects = list(visible_projects(request.user))
    asked = request.GET.get("project", "")
    project = get_project(request.user, asked) if asked else (projects[0] if projects else None)
    if project is None:
        return show(request, "people/none.html", {"may_create": can_create_projects(request.user)})
    part = MemberTable(request, project).part()
    return part if part is not None else project_page(request, project, projects=projects)


@page(post=thing(Permission.MEMBERS_MANAGE))
def invite(request: HttpRequest, project_id: str) -> HttpResponse:
    """Make an invitation and show its link, this once."""
    project = get_project(request, project_id)
    email = request.POST.get("email", "").strip()
    typed = {"email": email, "role": request.POST.get("role", "")}
    try:
        _, secret = actions.invite(actor=person(request), project=project, role=_role(request), email=email)
    except ValidationError as error:
        return project_page(request, project, status=422, invite={**typed, "problems": problems_of(error)})
    link = settings.PUBLIC_URL + reverse("invitation", args=(secret,))
    return project_page(request, project, invite=typed, link=link)


@page(post=thing(Permission.MEMBERS_MANAGE))
def withdraw(request: HttpRequest, project_id: str, invitation_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    actions.withdraw_invitation(actor=person(request), project=project, invitation_id=invitation_id)
    return answer(request, "Withdrew the invitation: its link opens nothing any more.", home="people")


@page(post=thing(Permission.MEMBERS_MANAGE))
def change_role(request: HttpRequest, project_id: str, user_id: int) -> HttpResponse:
    project = get_project(request, project_id)
    member = _member(project, user_id)
    role = role_of_form(request)
    name = request.POST.get("custom_role", "")
    custom = actions.custom_role_of(project, name) if name else None
    actions.change_role(actor=person(request), project=project, user=member, role=role, custom_role=custom)
    return answer(request, f"{member} is now {role.label.lower()} of {project.name}.", home="people")


@page(post=thing(Permission.MEMBERS_MANAGE))
def remove(request: HttpRequest, project_id: str, user_id: int) -> HttpResponse:
    project = get_project(request.user, project_id)
    member = _member(project, user_id)
    actions.remove_member(actor=person(request), project=project, user=member)
    to = reverse("people") if member == request.user else ""
    return answer(request, f"{member} is no longer in {project.name}.", to=to, home="people")


@page(get=site(Permission.PROJECTS_CREATE), post=site(Permission.PROJECTS_CREATE))
def new_project(request: HttpRequest) -> HttpResponse:
    name, problems = request.POST.get("name", "").strip(), {}
    if request.method == "POST":
        try:
            project = actions.create_project(actor=person(request), name=name)
            return redirect(f"{reverse('people')}?project={project.name}")
        except ValidationError as error:
            problems = problems_of(error)
        except actions.Refused as error:
            problems = {"name": error.sentence}
    context = {"name": name, "problems": problems}
    return show(request, "people/new_project.html", context, status=422 if problems else 200)


def project_page(request: HttpRequest, project: Project, *, status: int = 200, **context: object) -> HttpResponse:
    shown = {**_around(request, project), **context}
    return show(request, "people/people.html", shown, fragments=FRAGMENTS, status=status)


def _around(request: HttpRequest, project: Project) -> dict[str, object]:
    held = permissions_in(request.user, project)
    invitations = open_invitations().filter(project=project).select_related("created_by", "by_token")
    members = MemberTable(request, project)
    part = request.GET.get("part", "")
    return {
        "project": project,
        "held": held,
        "parts": PARTS,
        "part": part if part in PARTS else "members",
        "time": time_view(time_of_all(Run.objects.filter(project=project), timezone.now()), "All runs"),
        "projects": visible_projects(request.user),
        **members.context(),
        "git_keys": project.git_keys.all() if Permission.GIT_KEYS_READ in held else [],
        "invitations": invitations if Permission.INVITATIONS_READ in held else [],
        "secrets": project.secrets.all() if Permission.SECRETS_READ in held else [],
        "may_set": Permission.SECRETS_WRITE in held,
        "roles": members.roles,
        "meanings": [(role.label, MEANINGS[role]) for role in Role],
        "may_create": can_create_projects(request.user),
        **_rights(request, project, held),
        **usage_context(project),
    }


def _rights(request: HttpRequest, project: Project, held: frozenset[Permission]) -> dict[str, object]:
    groups = project.group_roles.select_related("group", "custom_role").order_by("group__name")
    accounts = project.memberships.filter(user__service_of=project).select_related("user").order_by("user__username")
    return {
        "groups": [(one, permissions_of(one.role, one.custom_role) <= held) for one in groups],
        "group_names": actions.visible_groups(person(request)).values_list("name", flat=True),
        "custom_roles": project.custom_roles.all(),
        "grantable": [one for one in Permission if one in held],
        "accounts": accounts if Permission.TOKENS_READ in held else [],
    }


def usage_context(project: Project) -> dict[str, object]:
    """Return what a bar of the project's storage shows."""
    usage = usage_of(project)
    quota = in_words(project.quota_bytes) if project.quota_bytes else ""
    is_measured = StoredData.objects.filter(project=project).exists()
    return {"usage": usage, "used": in_words(usage.used_bytes), "quota": quota, "is_measured": is_measured}


def role_of_form(request: HttpRequest) -> Role:
    """Return the role that a form without a place for problems chose. Raises Refused for none."""
    try:
        return _role(request)
    except ValidationError as error:
        raise actions.Refused("bad-role", " ".join(error.messages)) from error


def _role(request: HttpRequest) -> Role:
    try:
        return Role(request.POST.get("role", ""))
    except ValueError:
        raise ValidationError({"role": "Choose one of the roles."}) from None


def _member(project: Project, user_id: int) -> User:
    membership = Membership.objects.filter(project=project, user_id=user_id).select_related("user").first()
    return or_not_found(membership, "There is no such member.").user


# The members of a project as a table.


class Member(NamedTuple):
    one: Membership
    name: str  # markup
    role: str  # a form for who may change it


KINDS: dict[str, Kind[Member]] = {
    "name": Kind("Name", 180, lambda member: member.name, sort="shown", phone=""),
    "username": Kind("Username", 130, lambda member: clipped(member.one.user.username), sort="user__username"),
    "email": Kind("E-mail", 180, lambda member: clipped(member.one.user.email), sort="user__email"),
    "role": Kind("Role", 190, lambda member: member.role, sort="rank", phone=""),
    "since": Kind("Since", 100, lambda row: f'<span class="muted">{age(row.one.created_at)}</span>', sort="created_at"),
}


class MemberTable:
    """The members of a project as the address asks for them."""

    def __init__(self, request: HttpRequest, project: Project) -> None:
        self._request, self._project, self._held = request, project, permissions_in(request.user, project)
        self._sheet = Sheet(request, "Members", "member", KINDS, Sort("name", False), kept={"project": project.name})
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
            return Permission.MEMBERS_MANAGE in held and permissions_of(role, custom) <= held

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
                page_url = reverse("person", args=(user.pk,))
                shown = f'<a class="clip" tabindex="-1" href="{page_url}" data-open>{shown}</a>'
            shown = f'<div class="name-line">{shown}<span class="muted">{words}</span></div>'
            row = GridRow(str(one.pk), name, (), actions=gone if is_me or can_change else "")
            found[row.key] = (row, Member(one, shown, form.fill(url=url, **values)))
        return [found[key] for key in keys if key in found]

"""The people of a project: members and their roles, invitations that are open."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from dashboard.pages.shared.time_bar import time_view
from runs import actions
from runs.access import (
    NotFound,
    can,
    can_create_projects,
    get_project,
    open_invitations,
    require_project_maker,
    visible_projects,
)
from runs.models import Membership, Project, Role, Run, User
from runs.time_use.sums import time_of_all

FRAGMENTS = {
    "members": "people/_members.html",
    "invitations": "people/_invitations.html",
    "invite": "people/_invite.html",
    "git-keys": "people/_git_keys.html",
    "secrets": "people/_secrets.html",
}
MEANINGS = {
    Role.OWNER: "everything, and makes other owners",
    Role.MAINTAINER: "also invites people and deletes others' runs",
    Role.MEMBER: "launches, stops and restarts runs",
    Role.VIEWER: "sees everything, changes nothing",
}


@page()
def people(request: HttpRequest) -> HttpResponse:
    projects = list(visible_projects(request.user))
    asked = request.GET.get("project", "")
    project = get_project(request.user, asked) if asked else (projects[0] if projects else None)
    if project is None:
        return show(request, "people/none.html", {"may_create": can_create_projects(request.user)})
    return show(request, "people/people.html", around(request, project), fragments=FRAGMENTS)


@page(methods=("POST",))
def invite(request: HttpRequest, project_id: str) -> HttpResponse:
    """Make an invitation and show its link, this once."""
    project = get_project(request.user, project_id)
    context = around(request, project)
    context["invite"] = {"email": request.POST.get("email", "").strip(), "role": request.POST.get("role", "")}
    try:
        role = _role(request)
        _, secret = actions.invite(actor=person(request), project=project, role=role, email=context["invite"]["email"])
    except ValidationError as error:
        context["invite"]["problems"] = problems_of(error)
        return show(request, "people/people.html", context, fragments=FRAGMENTS, status=422)
    context["link"] = settings.PUBLIC_URL + reverse("invitation", args=(secret,))
    return show(request, "people/people.html", {**context, **around(request, project)}, fragments=FRAGMENTS)


@page(methods=("POST",))
def withdraw(request: HttpRequest, project_id: str, invitation_id: str) -> HttpResponse:
    project = get_project(request.user, project_id)
    actions.withdraw_invitation(actor=person(request), project=project, invitation_id=invitation_id)
    return answer(request, "Withdrew the invitation: its link opens nothing any more.", home="people")


@page(methods=("POST",))
def change_role(request: HttpRequest, project_id: str, user_id: int) -> HttpResponse:
    project = get_project(request.user, project_id)
    member = _member(project, user_id)
    try:
        role = _role(request)
    except ValidationError as error:
        raise actions.Refused("bad-role", " ".join(error.messages)) from error
    actions.change_role(actor=person(request), project=project, user=member, role=role)
    return answer(request, f"{member} is now {role.label.lower()} of {project.name}.", home="people")


@page(methods=("POST",))
def remove(request: HttpRequest, project_id: str, user_id: int) -> HttpResponse:
    project = get_project(request.user, project_id)
    member = _member(project, user_id)
    actions.remove_member(actor=person(request), project=project, user=member)
    to = reverse("people") if member == request.user else ""
    return answer(request, f"{member} is no longer in {project.name}.", to=to, home="people")


@page(methods=("GET", "POST"))
def new_project(request: HttpRequest) -> HttpResponse:
    require_project_maker(request.user)
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


def around(request: HttpRequest, project: Project) -> dict[str, Any]:
    may_manage = can(request.user, project, Role.MAINTAINER)
    is_owner = can(request.user, project, Role.OWNER)
    members = Membership.objects.filter(project=project).select_related("user").order_by("user__username")
    invitations = open_invitations().filter(project=project)
    roles = [role for role in Role if is_owner or role != Role.OWNER]
    time = time_of_all(Run.objects.filter(project=project), timezone.now())
    return {
        "project": project,
        "time": time_view(time, "All runs"),
        "projects": visible_projects(request.user),
        "members": [(one, may_manage and (is_owner or one.role != Role.OWNER), Role(one.role)) for one in members],
        "git_keys": project.git_keys.all() if can(request.user, project, Role.MEMBER) else [],
        "secrets": project.secrets.all() if can(request.user, project, Role.MEMBER) else [],
        "may_set": may_manage,
        "invitations": invitations.select_related("created_by") if may_manage else [],
        "may_manage": may_manage,
        "may_launch": can(request.user, project, Role.MEMBER),
        "is_owner": is_owner,
        "roles": [(role.value, role.label, MEANINGS[role]) for role in roles],
        "meanings": [(role.label, MEANINGS[role]) for role in Role],
        "may_create": can_create_projects(request.user),
    }


def _role(request: HttpRequest) -> Role:
    try:
        return Role(request.POST.get("role", ""))
    except ValueError:
        raise ValidationError({"role": "Choose one of the roles."}) from None


def _member(project: Project, user_id: int) -> User:
    membership = Membership.objects.filter(project=project, user_id=user_id).select_related("user").first()
    if membership is None:
        raise NotFound("There is no such member.")
    return membership.user

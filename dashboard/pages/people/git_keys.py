"""What opens a project's repositories: secrets that go in and never come out."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.people.views import FRAGMENTS, around
from dashboard.pages.shared.frame import answer, is_script, page, person, problems_of, show
from runs import actions
from runs.models import GitKey
from runs.rights.access import Permission, get_project
from runs.rights.access.operations import thing

SHOWN = ("kind", "place", "user", "host_keys")  # of what was typed: never the secret


@page(post=thing(Permission.GIT_KEYS_MANAGE))
def add(request: HttpRequest, project_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    typed = {name: request.POST.get(name, "").strip() for name in SHOWN}
    kind = GitKey.Kind.SSH if typed["kind"] == GitKey.Kind.SSH else GitKey.Kind.TOKEN
    try:
        actions.add_git_key(
            actor=person(request),
            project=project,
            kind=kind,
            place=typed["place"],
            secret=request.POST.get("secret", ""),
            user=typed["user"],
            host_keys=typed["host_keys"],
        )
    except ValidationError as error:
        context = {**around(request, project), "git_key": {**typed, "problems": problems_of(error)}}
        return show(request, "people/people.html", context, fragments=FRAGMENTS, status=422)
    if is_script(request):
        return show(request, "people/people.html", around(request, project), fragments=FRAGMENTS)
    return redirect(f"{reverse('people')}?project={project.name}")


@page(post=thing(Permission.GIT_KEYS_MANAGE))
def delete(request: HttpRequest, project_id: str, key_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    actions.delete_git_key(actor=person(request), project=project, key_id=key_id)
    return answer(request, "Deleted the Git key.", home="people")

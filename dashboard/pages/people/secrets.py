"""Secrets and Git keys of a project, secrets of oneself: names, versions and times. Values go in and never come out."""

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.people.views import project_page
from dashboard.pages.shared.frame import answer, is_script, page, person, problems_of, show
from runs import actions
from runs.models import GitKey, Project
from runs.rights.access import Permission, get_project
from runs.rights.access.operations import own, thing

SHOWN = ("kind", "place", "user", "host_keys")  # of what was typed: never the secret


@page(post=thing(Permission.SECRETS_WRITE))
@sensitive_post_parameters("value")
def put(request: HttpRequest, project_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    name = request.POST.get("name", "").strip()
    try:
        actions.set_secret(actor=person(request), project=project, name=name, value=_value(request))
    except ValidationError as error:
        return _shown(request, project, secret_form={"name": name, "problems": problems_of(error)})
    return _shown(request, project)


@page(post=thing(Permission.SECRETS_WRITE))
def delete(request: HttpRequest, project_id: str, name: str) -> HttpResponse:
    actions.delete_secret(actor=person(request), project=get_project(request, project_id), name=name)
    return answer(request, f"Deleted the secret {name}.", home="people")


@page(get=own(Permission.SECRETS_READ))
def own_secrets(request: HttpRequest) -> HttpResponse:
    """One's own secrets."""
    return _own(request)


@page(post=own(Permission.SECRETS_WRITE))
@sensitive_post_parameters("value")
def put_own(request: HttpRequest) -> HttpResponse:
    name = request.POST.get("name", "").strip()
    try:
        actions.set_secret(actor=person(request), name=name, value=_value(request))
    except ValidationError as error:
        return _own(request, secret_form={"name": name, "problems": problems_of(error)})
    return _own(request) if is_script(request) else redirect("own-secrets")


@page(post=own(Permission.SECRETS_WRITE))
def delete_own(request: HttpRequest, name: str) -> HttpResponse:
    actions.delete_secret(actor=person(request), name=name)
    return answer(request, f"Deleted the secret {name}.", home="own-secrets")


def _own(request: HttpRequest, **refused: object) -> HttpResponse:
    context = {"secrets": person(request).secrets.all(), "may_set": True, **refused}
    fragments = {"secrets": "people/_secrets.html"}
    return show(request, "account/secrets.html", context, fragments=fragments, status=422 if refused else 200)


def _shown(request: HttpRequest, project: Project, **refused: object) -> HttpResponse:
    """The project's page again; ``refused`` is the form that was not taken, with its problems."""
    if refused or is_script(request):
        return project_page(request, project, status=422 if refused else 200, part="secrets", **refused)
    return redirect(f"{reverse('people')}?project={project.name}")


def _value(request: HttpRequest) -> str:
    """Return the value as it was typed: a browser ends each line with a carriage return."""
    return request.POST.get("value", "").replace("\r\n", "\n")


# Git keys: what opens a project's repositories.


@page(post=thing(Permission.GIT_KEYS_MANAGE))
def add_key(request: HttpRequest, project_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    typed = {name: request.POST.get(name, "").strip() for name in SHOWN}
    kind = GitKey.Kind.SSH if typed["kind"] == GitKey.Kind.SSH else GitKey.Kind.TOKEN
    given: dict[str, Any] = {**typed, "kind": kind, "secret": request.POST.get("secret", "")}
    try:
        actions.add_git_key(actor=person(request), project=project, **given)
    except ValidationError as error:
        return _shown(request, project, git_key={**typed, "problems": problems_of(error)})
    return _shown(request, project)


@page(post=thing(Permission.GIT_KEYS_MANAGE))
def delete_key(request: HttpRequest, project_id: str, key_id: str) -> HttpResponse:
    actions.delete_git_key(actor=person(request), project=get_project(request, project_id), key_id=key_id)
    return answer(request, "Deleted the Git key.", home="people")

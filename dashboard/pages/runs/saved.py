"""Saved views of the table of runs: links to its address, one person's or a project's."""

from typing import NamedTuple

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from dashboard.pages.runs.address import Asked, url_of
from dashboard.pages.shared.frame import answer, page, person
from runs import actions
from runs.models import SavedView
from runs.rights.access import NotFound, Permission, can, get_view, projects_with, visible_projects
from runs.rights.access.operations import own, thing

PASSING = {"open": "", "fragment": ""}  # of an address, what no view keeps


class SavedLink(NamedTuple):
    key: str
    name: str
    url: str
    whose: str
    is_current: bool
    is_default: bool
    may_edit: bool


def saved_views(request: HttpRequest, asked: Asked) -> dict[str, object]:
    """Return what ``runs/_views.html`` needs."""
    user, query = person(request), url_of(asked, **PASSING).removeprefix("?")
    seen = Q(owner=user) | Q(project__in=visible_projects(user))
    found = SavedView.objects.filter(seen).select_related("project").order_by("name", "pk")
    made = [
        SavedLink(one.pk, one.name, f"?{one.query}", one.project.name if one.project else "mine", one.query == query,
                  one.is_default, one.project is None or can(user, one.project, Permission.RUNS_ANNOTATE))
        for one in found
    ]  # fmt: skip
    return {
        "saved": made,
        "current_view": next((one for one in made if one.is_current), None),
        "query": query,
        "view_projects": list(projects_with(user, Permission.RUNS_ANNOTATE).values_list("name", flat=True)[:20]),
    }


def default_query(request: HttpRequest) -> str:
    """Return what the table shows to whoever asks for nothing: their own default, else a project's."""
    user = person(request)
    seen = Q(owner=user) | Q(project__in=visible_projects(user))
    rows = SavedView.objects.filter(seen, is_default=True).order_by("project__name", "pk")
    found = sorted(rows.values_list("owner", "query"), key=lambda row: row[0] is None)
    return found[0][1] if found else ""


@page(post=own(Permission.ACCOUNT_MANAGE))
def save_own(request: HttpRequest) -> HttpResponse:
    view = actions.save_view(actor=person(request), **_given(request))
    return answer(request, f"Saved the view {view.name}.", to=_address(view))


@page(post=thing(Permission.RUNS_ANNOTATE))
def save_shared(request: HttpRequest) -> HttpResponse:
    project = request.POST.get("project", "")
    if not project:
        raise NotFound("A view is shared in a project.")
    view = actions.save_view(actor=person(request), **_given(request), project=project)
    return answer(request, f"Saved the view {view.name} for everybody in {project}.", to=_address(view))


@page(post=thing(Permission.RUNS_ANNOTATE))
def change(request: HttpRequest, view_id: str) -> HttpResponse:
    """Rename it (``name``), or make it the default or not (``default``: 1 or 0)."""
    user, view = person(request), get_view(request, view_id)
    if "default" in request.POST:
        is_default = request.POST["default"] == "1"
        actions.make_default_view(actor=user, view=view, is_default=is_default)
        words = f"The table begins with {view.name}." if is_default else f"{view.name} is the default no more."
    else:
        actions.rename_view(actor=user, view=view, name=request.POST.get("name", ""))
        words = f"The view is called {view.name}."
    return answer(request, words, to=_address(view))


@page(post=thing(Permission.RUNS_ANNOTATE))
def delete(request: HttpRequest, view_id: str) -> HttpResponse:
    view = get_view(request, view_id)
    actions.delete_view(actor=person(request), view=view)
    return answer(request, f"Deleted the view {view.name}.", to=_address(view))


def _given(request: HttpRequest) -> dict[str, str]:
    return {name: request.POST.get(name, "") for name in ("name", "query")}


def _address(view: SavedView) -> str:
    return f"{reverse('runs')}?{view.query}"

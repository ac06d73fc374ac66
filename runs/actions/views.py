"""Saved views of tables."""

from urllib.parse import parse_qsl, urlencode

from django.db import transaction

from runs.models import Project, SavedView, User
from runs.rights.access import NotFound, Permission, project_by_name, require
from runs.values.refused import Refused
from trainyard.formats.names import without_hidden

MAX_VIEWS = 200  # of a person, and of a project
MAX_QUERY = 10_000


def save_view(*, actor: User, name: str, query: str, project: str = "") -> SavedView:
    """Save the query under the name, for the person or, where one is named, for the project; under a name that exists
    it takes the place of what was there."""
    into = _project(actor, project) if project else None
    whose = {"project": into} if into else {"owner": actor}
    name = _name(name)
    if len(query) > MAX_QUERY:
        raise Refused("too-long", f"A view has at most {MAX_QUERY:,} characters in its address.")
    # Names and values alone: a default that is "&", or begins with "#", would lead to the table itself for ever.
    query = urlencode(parse_qsl(query), safe=",/@!")
    with transaction.atomic():
        if SavedView.objects.filter(**whose).exclude(name=name).count() >= MAX_VIEWS:
            raise Refused("too-many", f"There are {MAX_VIEWS} views already. Delete one that nobody needs.")
        view, _ = SavedView.objects.update_or_create(
            **whose, name=name, defaults={"query": query}, create_defaults={"query": query, "created_by": actor}
        )
    return view


def rename_view(*, actor: User, view: SavedView, name: str) -> SavedView:
    _require(actor, view)
    name = _name(name)
    if SavedView.objects.filter(owner=view.owner, project=view.project, name=name).exclude(pk=view.pk).exists():
        raise Refused("name-taken", f"There is a view {name} already.")
    view.name = name
    view.save()
    return view


def make_default_view(*, actor: User, view: SavedView, is_default: bool = True) -> SavedView:
    """Make it what the table shows first, in the place of another one of the same person or project."""
    _require(actor, view)
    with transaction.atomic():
        SavedView.objects.filter(owner=view.owner, project=view.project).update(is_default=False)
        view.is_default = is_default
        view.save()
    return view


def delete_view(*, actor: User, view: SavedView) -> None:
    _require(actor, view)
    view.delete()


def _project(actor: User, name: str) -> Project:
    found = project_by_name(actor, name)
    require(actor, found, Permission.RUNS_ANNOTATE)
    return found


def _require(actor: User, view: SavedView) -> None:
    if view.project is not None:
        require(actor, view.project, Permission.RUNS_ANNOTATE)
    elif view.owner_id != actor.pk:
        raise NotFound("There is no such view.")


def _name(name: str) -> str:
    name = without_hidden(name).strip()[:60]
    if not name:
        raise Refused("no-name", "A view needs a name.")
    return name

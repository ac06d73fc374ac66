"""What is saved under a name: specs, and views of tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.db import IntegrityError, transaction
from django.db.models import Max

from runs.models import Job, Project, SavedView, User
from runs.rights.access import NotFound, Permission, project_by_name, require
from runs.rights.secrets.key_stores import KeyProblem
from runs.values.refused import Refused
from trainyard.formats.names import without_hidden
from trainyard.spec import parse_spec

MAX_VIEWS = 200  # of a person, and of a project
MAX_QUERY = 10_000


def save_job(*, actor: User, document: Any) -> Job:
    """Save the spec under its own name; under a name that exists it becomes the next version. Raises SpecError."""
    spec = parse_spec(document).resolved()
    project = project_by_name(actor, spec["project"])
    require(actor, project, Permission.JOBS_EDIT)
    with transaction.atomic():
        Project.objects.select_for_update().get(pk=project.pk)  # two people saving at once get two versions
        earlier = Job.objects.filter(project=project, name=spec["name"])
        version = (earlier.aggregate(newest=Max("version"))["newest"] or 0) + 1
        return Job.objects.create(project=project, name=spec["name"], version=version, spec=spec, created_by=actor)


def delete_job(*, actor: User, job: Job) -> None:
    """Forget this job with all its versions; runs that came from it keep their own spec."""
    require(actor, job.project, Permission.JOBS_EDIT)
    Job.objects.filter(project=job.project, name=job.name).delete()


@contextmanager
def taking_name(sentence: str) -> Iterator[None]:
    """Return a transaction that takes a name. Raises Refused with the sentence where it is taken."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise Refused("name-taken", sentence) from error


@contextmanager
def refusing_without_key(code: str = "no-key") -> Iterator[None]:
    """Raise Refused where there is no key to lock something with."""
    try:
        yield
    except KeyProblem as error:
        raise Refused(code, str(error)) from error


def save_view(*, actor: User, name: str, query: str, project: str = "") -> SavedView:
    """Save the query under the name, for the person or, where one is named, for the project; under a name that exists
    it takes the place of what was there."""
    whose: dict[str, Any] = {"owner": actor}
    if project:
        whose = {"project": project_by_name(actor, project)}
        require(actor, whose["project"], Permission.RUNS_ANNOTATE)
    name = _view_name(name)
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
    _require_over_view(actor, view)
    name = _view_name(name)
    if SavedView.objects.filter(owner=view.owner, project=view.project, name=name).exclude(pk=view.pk).exists():
        raise Refused("name-taken", f"There is a view {name} already.")
    view.name = name
    view.save()
    return view


def make_default_view(*, actor: User, view: SavedView, is_default: bool = True) -> SavedView:
    """Make it what the table shows first, in the place of another one of the same person or project."""
    _require_over_view(actor, view)
    with transaction.atomic():
        SavedView.objects.filter(owner=view.owner, project=view.project).update(is_default=False)
        view.is_default = is_default
        view.save()
    return view


def delete_view(*, actor: User, view: SavedView) -> None:
    _require_over_view(actor, view)
    view.delete()


def _require_over_view(actor: User, view: SavedView) -> None:
    if view.project is not None:
        require(actor, view.project, Permission.RUNS_ANNOTATE)
    elif view.owner_id != actor.pk:
        raise NotFound("There is no such view.")


def _view_name(name: str) -> str:
    name = without_hidden(name).strip()[:60]
    if not name:
        raise Refused("no-name", "A view needs a name.")
    return name

"""Loaders of what is in projects. Pages, the API and consumers get their things here alone.

What a person may not see does not exist for them (NotFound); what they may see but not do is Forbidden. Loaders that
are given a request ask for what its operation declares; of a person they ask to read, or what the caller names.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest

from runs.models import Dataset, Job, Project, Report, Role, Run, SavedView, SharedLink, Sweep, User
from runs.models.indexes import one_of
from runs.rights.access.clusters import M, require_manager, require_use, seen
from runs.rights.access.operations import Asker, Rule, RuleKind, asked
from runs.rights.access.permissions import PERMISSIONS_OF, Forbidden, NotFound, Permission, Wanted, needed, or_not_found
from runs.rights.access.roles import Someone, has_scope, require, require_scope, visible_project_ids, visible_projects
from runs.rights.access.tokens import is_administrator, require_administrator

Rows = TypeVar("Rows", bound=QuerySet[Any])
M_co = TypeVar("M_co", covariant=True)


# Columns that lists of runs do not show and that take long to read: documents, and times of people.
UNREAD = (
    "estimate",  # a row for each rank
    "found_by",
    "cluster__settings",
    "cluster__secrets",
    "cluster__labels",
    "cluster__log_rules",
    "created_by__last_login",
    "created_by__date_joined",
)

RUNS = Run.objects.select_related("project", "cluster", "created_by").defer(*UNREAD)
JOBS = Job.objects.select_related("project")
DATASETS = Dataset.objects.select_related("project", "cluster", "checked_by", "created_by")
SWEEPS = Sweep.objects.select_related("project", "cluster", "created_by")
LINKS = SharedLink.objects.select_related("project", "created_by")
REPORTS = Report.objects.select_related("project", "created_by")


def _within(user: Someone, rows: Rows) -> Rows:
    """Return those of the rows that are in a project that the person sees. The projects are asked for first: by a
    subquery every list of rows would be found project by project, and then sorted."""
    if not isinstance(user, User) or not user.is_active:
        return rows.none()
    ids = visible_project_ids(user)
    return rows.all() if ids is None else rows.filter(one_of("project_id", ids))


def _visible(rows: Rows, reading: Permission) -> Callable[[Someone], Rows]:
    """Return what finds those of the rows that are in a project that a person sees."""

    def visible(user: Someone) -> Rows:
        require_scope(user, reading)
        return _within(user, rows)

    return visible


visible_runs = _visible(RUNS, Permission.RUNS_READ)
visible_jobs = _visible(JOBS, Permission.JOBS_READ)
visible_datasets = _visible(DATASETS, Permission.DATASETS_READ)
visible_sweeps = _visible(SWEEPS, Permission.SWEEPS_READ)
visible_shared_links = _visible(LINKS, Permission.RUNS_READ)  # whoever sees a thing sees who shared it
visible_reports = _visible(REPORTS, Permission.RUNS_READ)


def _allowed(user: Someone, thing: M, project: Project, wanted: Wanted) -> M:
    """Return the thing, which the person sees, if they may do this with it."""
    if needed(wanted) <= PERMISSIONS_OF[Role.VIEWER]:  # whoever sees a project may do what a viewer may
        require_scope(user, wanted, project.pk)
    else:
        require(user, project, wanted)
    return thing


class Loader(Protocol[M_co]):
    def __call__(self, who: Asker, key: str, wanted: Wanted | None = None) -> M_co:
        """Return the thing with that id, if they may do with it what they want. Raises NotFound and Forbidden."""


def _loader(rows: QuerySet[M], kind: str, reading: Permission) -> Loader[M]:
    """Return what loads one of the rows that are in projects that a person sees."""

    def get(who: Asker, key: str, wanted: Wanted | None = None) -> M:
        user, wants = asked(who, wanted, reading)
        thing = seen(_within(user, rows), kind, key)
        return _allowed(user, thing, thing.project, wants)  # type: ignore[attr-defined]  # all of these have one

    return get


get_run = _loader(RUNS, "run", Permission.RUNS_READ)
get_job = _loader(JOBS, "job", Permission.JOBS_READ)
get_dataset = _loader(DATASETS, "dataset", Permission.DATASETS_READ)
get_sweep = _loader(SWEEPS, "sweep", Permission.SWEEPS_READ)
get_report = _loader(REPORTS, "report", Permission.RUNS_READ)


def get_project(who: Asker, project_id: str, wanted: Wanted | None = None) -> Project:
    """Return the project with that id or name. Raises NotFound or Forbidden."""
    user, wanted = asked(who, wanted, Permission.PROJECTS_READ)
    project = named_project(user, project_id)
    return _allowed(user, project, project, wanted)


def named_project(user: Someone, project_id: str) -> Project:
    """Return the project with that id or name, for a list of what lies in it: whoever reads that needs no right to read
    the project. Raises NotFound."""
    return seen(visible_projects(user), "project", project_id, by_name=True)


def project_by_name(user: Someone, name: str) -> Project:
    """Return the project of that name, of those that the person sees. Raises NotFound."""
    found = visible_projects(user).filter(name=name).first()
    return or_not_found(found, f"There is no project {name!r} that you can see.")


def get_run_to_enter(user: Someone, run_id: str) -> Run:
    """Return the run if the person may run commands beside its ranks: those who may have it run any script there, on a
    cluster whose managers allow it. Raises NotFound and Forbidden."""
    run = get_run(user, run_id, Permission.RUNS_ENTER)
    if run.cluster is None:
        raise Forbidden(f"Run {run.name} was logged outside of Trainyard: nothing can be started beside its ranks.")
    require_use(run.project, run.cluster, user)
    if not run.cluster.interactive:
        why = f"Cluster {run.cluster.name} allows no interactive sessions."
        raise Forbidden(f"{why} Staff allow them where the cluster is edited.")
    return run


def why_not_enter(user: Someone, run_id: str) -> str:
    """Return why the person may not run commands beside the run's ranks, empty where they may."""
    try:
        get_run_to_enter(user, run_id)
    except (NotFound, Forbidden) as refusal:
        return str(refusal)
    return ""


def get_runs(user: Someone, run_ids: Collection[str]) -> list[Run]:
    """Return these runs in the order in which they are named, each once, with their times alone: for whoever reads
    what they reported. Raises NotFound, without saying for which."""
    require_scope(user, Permission.RUNS_READ)
    wanted = list(dict.fromkeys(run_ids))
    found = _within(user, Run.objects.only("pk", "created_at", "started_at")).in_bulk(wanted)
    if len(found) < len(wanted):
        if len(wanted) == 1:
            raise NotFound(f"There is no run {wanted[0]!r} that you can see.")
        raise NotFound("Not all of these are runs that you can see.")
    return [found[run_id] for run_id in wanted]


def get_view(who: Asker, view_id: str, wanted: Wanted | None = None) -> SavedView:
    """Return a view of the person, or one of a project in which they may do that."""
    user, wanted = asked(who, wanted, Permission.RUNS_READ)
    view = SavedView.objects.filter(pk=view_id).select_related("project").first()
    is_mine = view is not None and view.project is None and view.owner_id == user.pk
    if view is None or not (is_mine or (view.project and visible_projects(user).filter(pk=view.project_id).exists())):
        raise NotFound(f"There is no view {view_id!r} that you can see.")
    return view if view.project is None else _allowed(user, view, view.project, wanted)


def get_shared_link(who: Asker, link_id: str, wanted: Wanted | None = None) -> SharedLink:
    user, wanted = asked(who, wanted, Permission.RUNS_READ)
    link = seen(visible_shared_links(user), "link", link_id)
    return _allowed(user, link, link.project, wanted)


def can_create_projects(user: Someone) -> bool:
    """Administrators, and people with Django's permission to add projects. No role in a project includes it."""
    return isinstance(user, User) and user.has_perm("runs.add_project") and has_scope(user, Permission.PROJECTS_CREATE)


def require_project_maker(user: Someone) -> None:
    if not can_create_projects(user):
        require_scope(user, Permission.PROJECTS_CREATE)
        raise Forbidden("You may not make projects. Ask an administrator to make it, or to let you make projects.")


def admit(request: HttpRequest, rule: Rule) -> None:
    """Refuse what needs no thing to be refused, before the handler runs; tell the loaders what it declares. Raises
    Forbidden, and NotFound where the operation hides."""
    request.rule = rule  # type: ignore[attr-defined]  # see asked()
    if rule.permission is None:
        return
    if rule.kind in (RuleKind.LIST, RuleKind.ACCOUNT):
        require_scope(request.user, rule.permission)
    elif rule.kind == RuleKind.ADMINISTRATOR:
        if rule.hides and not is_administrator(request.user):
            raise NotFound
        require_administrator(request.user)
    elif rule.kind == RuleKind.SITE:
        MAKERS[rule.permission](request.user)


MAKERS = {Permission.CLUSTERS_MANAGE: require_manager, Permission.PROJECTS_CREATE: require_project_maker}

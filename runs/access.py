"""Who may see and do what: the only loaders that pages, the API and consumers use.

What a person may not see does not exist for them (NotFound); what they may see but not do is Forbidden. Both are
Django's own kinds of refusal too, so that a view that forgets to catch them still refuses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.http import Http404
from django.utils import timezone

from runs.models import (
    Cluster,
    Dataset,
    Invitation,
    Job,
    JoinToken,
    Membership,
    Node,
    Project,
    Role,
    Run,
    Sweep,
    Token,
    User,
)
from runs.models.access import digest_of
from runs.models.jobs import JobQuerySet
from runs.ordered import one_of

TOKEN_PREFIX = "ty_"
USED_EVERY = timedelta(minutes=1)  # how exactly a token's last use is known

M = TypeVar("M", bound=Model)
Rows = TypeVar("Rows", bound=QuerySet[Any])
Someone = User | AnonymousUser


class NotFound(Http404):
    """There is no such thing, or none that this person may see."""


class Forbidden(PermissionDenied):
    """This person may see the thing, but not do this with it."""


@dataclass(frozen=True)
class Sight:
    """What a person could see at a moment, as plain values: for those who must ask for many people at once."""

    projects: frozenset[str] | None  # ids; None: all there are

    def sees(self, project_id: str | None) -> bool:
        """Whether they see what is in that project; None is the project of what there is not."""
        return project_id is not None and (self.projects is None or project_id in self.projects)


def sights(users: Collection[User]) -> dict[int, Sight]:
    """Return the sight of each person by their id: visible_projects() for many, in one query."""
    projects: dict[int, set[str]] = {user.pk: set() for user in users if user.is_active}
    for user_id, project_id in Membership.objects.filter(user__in=projects).values_list("user_id", "project_id"):
        projects[user_id].add(project_id)
    everywhere = {user.pk for user in users if user.is_superuser}
    nothing: set[str] = set()
    return {
        user.pk: Sight(None if user.is_active and user.pk in everywhere else frozenset(projects.get(user.pk, nothing)))
        for user in users
    }


def projects_of_runs(run_ids: Collection[str]) -> dict[str, str]:
    """Return the project of each of the runs that there are: who sees the project sees the run."""
    return dict(Run.objects.filter(pk__in=run_ids).values_list("pk", "project_id"))


def visible_projects(user: Someone) -> QuerySet[Project]:
    if not isinstance(user, User) or not user.is_active:
        return Project.objects.none()
    return Project.objects.all() if user.is_superuser else Project.objects.filter(memberships__user=user)


def projects_of_sweeps(sweep_ids: Collection[str]) -> dict[str, str]:
    """Return the project of each of the sweeps that there are: who sees the project sees the sweep."""
    return dict(Sweep.objects.filter(pk__in=sweep_ids).values_list("pk", "project_id"))


def visible_runs(user: Someone) -> QuerySet[Run]:
    # The prediction has a row for each rank, so lists leave it out.
    runs = Run.objects.select_related("project", "cluster", "created_by", "job").defer("estimate", "found_by")
    return _within(user, runs)


def _within(user: Someone, rows: Rows) -> Rows:
    """Those of the rows that are in a project that the person sees. The projects are asked for first: by a subquery
    every list of rows would be found project by project, and then sorted."""
    if not isinstance(user, User) or not user.is_active:
        return rows.none()
    if user.is_superuser:
        return rows
    return rows.filter(one_of("project_id", list(visible_projects(user).values_list("pk", flat=True))))


def visible_jobs(user: Someone) -> JobQuerySet:
    return _within(user, Job.objects.select_related("project"))


def visible_sweeps(user: Someone) -> QuerySet[Sweep]:
    return _within(user, Sweep.objects.select_related("project", "cluster", "created_by"))


def visible_datasets(user: Someone) -> QuerySet[Dataset]:
    return _within(user, Dataset.objects.select_related("project", "cluster", "checked_by", "created_by"))


def visible_clusters(user: Someone) -> QuerySet[Cluster]:
    """All for staff, who manage them; for others those that a project of theirs may use."""
    if can_manage_clusters(user):
        return Cluster.objects.all()
    lets = Cluster.projects.through.objects.filter(project__in=visible_projects(user))
    return Cluster.objects.filter(pk__in=lets.values("cluster"))


def visible_nodes(user: Someone) -> QuerySet[Node]:
    nodes = Node.objects.present().select_related("cluster")
    return nodes if can_manage_clusters(user) else nodes.filter(cluster__in=visible_clusters(user))


def get_cluster_for(user: Someone, project: Project, cluster_id: str) -> Cluster:
    """Return the cluster with that id or name for use by the project, whoever asks. Raises NotFound and Forbidden."""
    cluster = get_cluster(user, cluster_id)
    require_use(project, cluster)
    return cluster


def require_use(project: Project, cluster: Cluster) -> None:
    """Raise Forbidden unless the project may use the cluster: superusers too, for its members' runs go there."""
    if not cluster.projects.filter(pk=project.pk).exists():
        raise Forbidden(
            f"Project {project.name} may not use cluster {cluster.name}. Staff let a project use it, where the cluster "
            "is edited."
        )


def get_project(user: Someone, project_id: str, role: Role = Role.VIEWER) -> Project:
    """Return the project with that id or name. Raises NotFound or Forbidden."""
    project = (
        visible_projects(user).filter(pk=project_id).first() or visible_projects(user).filter(name=project_id).first()
    )
    if project is None:
        raise NotFound(f"There is no project {project_id!r} that you can see.")
    return _allowed(user, project, project, role)


def get_run(user: Someone, run_id: str, role: Role = Role.VIEWER) -> Run:
    run = visible_runs(user).filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"There is no run {run_id!r} that you can see.")
    return _allowed(user, run, run.project, role)


def get_run_to_enter(user: Someone, run_id: str) -> Run:
    """Return the run if the person may run commands beside its ranks: those who may have it run any script there, on a
    cluster whose managers allow it. Raises NotFound and Forbidden."""
    run = get_run(user, run_id, Role.MEMBER)
    if run.cluster is None:
        raise Forbidden(f"Run {run.name} was logged outside of Trainyard: nothing can be started beside its ranks.")
    require_use(run.project, run.cluster)
    if not run.cluster.interactive:
        raise Forbidden(
            f"Cluster {run.cluster.name} allows no interactive sessions. Staff allow them where the cluster is edited."
        )
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
    wanted = list(dict.fromkeys(run_ids))
    found = _within(user, Run.objects.only("pk", "created_at", "started_at")).in_bulk(wanted)
    if len(found) < len(wanted):
        if len(wanted) == 1:
            raise NotFound(f"There is no run {wanted[0]!r} that you can see.")
        raise NotFound("Not all of these are runs that you can see.")
    return [found[run_id] for run_id in wanted]


def get_job(user: Someone, job_id: str, role: Role = Role.VIEWER) -> Job:
    job = visible_jobs(user).filter(pk=job_id).first()
    if job is None:
        raise NotFound(f"There is no job {job_id!r} that you can see.")
    return _allowed(user, job, job.project, role)


def get_sweep(user: Someone, sweep_id: str, role: Role = Role.VIEWER) -> Sweep:
    sweep = visible_sweeps(user).filter(pk=sweep_id).first()
    if sweep is None:
        raise NotFound(f"There is no sweep {sweep_id!r} that you can see.")
    return _allowed(user, sweep, sweep.project, role)


def get_dataset(user: Someone, dataset_id: str, role: Role = Role.VIEWER) -> Dataset:
    dataset = visible_datasets(user).filter(pk=dataset_id).first()
    if dataset is None:
        raise NotFound(f"There is no dataset {dataset_id!r} that you can see.")
    return _allowed(user, dataset, dataset.project, role)


def get_cluster(user: Someone, cluster_id: str, *, manage: bool = False) -> Cluster:
    """Return the cluster with that id or name. Raises NotFound, and Forbidden where ``manage`` is asked in vain."""
    clusters = visible_clusters(user)
    cluster = clusters.filter(pk=cluster_id).first() or clusters.filter(name=cluster_id).first()
    if cluster is None:
        raise NotFound(f"There is no cluster {cluster_id!r} that you can see.")
    if manage:
        require_manager(user)
    return cluster


def get_node(user: Someone, node_id: str, *, manage: bool = False) -> Node:
    """Return the node with that id or name. Raises NotFound, and Forbidden where ``manage`` is asked in vain."""
    nodes = visible_nodes(user)
    node = nodes.filter(pk=node_id).first() or nodes.filter(name=node_id).first()
    if node is None:
        raise NotFound(f"There is no node {node_id!r} that you can see.")
    if manage:
        require_manager(user)
    return node


def can(user: Someone, project: Project, role: Role) -> bool:
    """Whether the person has at least that role in the project."""
    if not isinstance(user, User) or not user.is_active:
        return False
    if user.is_superuser:
        return True
    membership = Membership.objects.filter(project=project, user=user).first()
    return membership is not None and Role(membership.role).includes(role)


def projects_with(user: Someone, role: Role) -> QuerySet[Project]:
    """The projects in which the person has at least that role."""
    if not isinstance(user, User) or not user.is_active:
        return Project.objects.none()
    if user.is_superuser:
        return Project.objects.all()
    enough = [one for one in Role if one.includes(role)]
    return Project.objects.filter(memberships__user=user, memberships__role__in=enough)


def can_manage_clusters(user: Someone) -> bool:
    """Clusters and nodes are the platform engineer's: staff, as Django calls them."""
    return isinstance(user, User) and user.is_active and (user.is_staff or user.is_superuser)


def can_create_projects(user: Someone) -> bool:
    """Administrators, and people with Django's permission to add projects. No role in a project includes it."""
    return isinstance(user, User) and user.has_perm("runs.add_project")


def require_project_maker(user: Someone) -> None:
    if not can_create_projects(user):
        raise Forbidden("You may not make projects. Ask an administrator to make it, or to let you make projects.")


def require_manager(user: Someone) -> None:
    if not can_manage_clusters(user):
        raise Forbidden("Only staff may change clusters and nodes.")


def can_run_on(user: Someone, cluster: Cluster) -> bool:
    """Whether they are staff, or a member of a project that may use the cluster."""
    return can_manage_clusters(user) or projects_with(user, Role.MEMBER).filter(clusters=cluster).exists()


def require_runner(user: Someone, cluster: Cluster) -> None:
    """Raise Forbidden for who may not run on the cluster."""
    if not can_run_on(user, cluster):
        raise Forbidden(f"You need to be a member of a project that may use cluster {cluster.name} to do this.")


def require(user: Someone, project: Project, role: Role) -> None:
    """Raise NotFound for who cannot see the project, Forbidden for who has less than ``role`` in it."""
    if not can(user, project, Role.VIEWER):
        raise NotFound(f"There is no project {project.name!r} that you can see.")
    if not can(user, project, role):
        raise Forbidden(f"You need to be {role.label.lower()} of project {project.name} to do this.")


def user_of_token(secret: str) -> User | None:
    """Return whose token this is; None when it is unknown, revoked, expired, or its owner was disabled."""
    return users_of_tokens([secret]).get(secret)


def users_of_tokens(secrets: Collection[str]) -> dict[str, User]:
    """Return who is behind each secret, without those that open nothing (see user_of_token)."""
    by_digest = {digest_of(secret): secret for secret in secrets}
    now = timezone.now()
    tokens = [
        token
        for token in Token.objects.select_related("user").filter(digest__in=by_digest, revoked_at=None)
        if token.user.is_active and (token.expires_at is None or token.expires_at > now)
    ]
    stale = [token.pk for token in tokens if token.last_used_at is None or now - token.last_used_at > USED_EVERY]
    if stale:
        Token.objects.filter(pk__in=stale).update(last_used_at=now)
    return {by_digest[token.digest]: token.user for token in tokens}


def open_invitations() -> QuerySet[Invitation]:
    """Those not used and not too old, from people who may still invite to that role."""
    inviting = Membership.objects.filter(project=OuterRef("project"), user=OuterRef("created_by"))
    to_any_role = Q(created_by__is_superuser=True) | Exists(inviting.filter(role=Role.OWNER))
    to_this_role = to_any_role | (~Q(role=Role.OWNER) & Exists(inviting.filter(role=Role.MAINTAINER)))
    found = Invitation.objects.filter(accepted_at=None, expires_at__gt=timezone.now(), created_by__is_active=True)
    return found.filter(to_this_role)


def get_invitation(secret: str) -> Invitation:
    """Return the open invitation with that secret. Raises NotFound where there is none, or none any more."""
    found = open_invitations().filter(digest=digest_of(secret))
    invitation = found.select_related("project", "created_by").first()
    if invitation is None:
        raise NotFound("This invitation is unknown, already used, withdrawn, or too old.")
    return invitation


def join_tokens_that_open() -> QuerySet[JoinToken]:
    """Those not used and not too old, from people who may still change clusters."""
    found = JoinToken.objects.filter(used_at=None, expires_at__gt=timezone.now())
    from_people = Q(placement=None, created_by__is_active=True) & (
        Q(created_by__is_staff=True) | Q(created_by__is_superuser=True)
    )
    return found.filter(from_people | Q(placement__attempt__ended_at=None, placement__isnull=False))


def _allowed(user: Someone, thing: M, project: Project, role: Role) -> M:
    if role != Role.VIEWER and not can(user, project, role):
        raise Forbidden(f"You need to be {role.label.lower()} of project {project.name} to do this.")
    return thing

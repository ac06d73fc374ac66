"""Checks of a spec, and what it would cost: the same for a person who launches it and for one who asks beforehand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from runs.actions.continuing import origin_problems
from runs.actions.queueing import why_not_so_high, why_too_long
from runs.actions.starting import deadline_problems, with_runs_before
from runs.inputs.datasets import resolve
from runs.models import Cluster, CodeBundle, Node, Project, User
from runs.placing.planning import runs_containers
from runs.rights import access
from runs.rights.secrets.delivery import credentials_missing, missing_in
from trainyard.spec import Problem, ScriptSpec, Spec, SpecError, check_fits, check_room, parse_spec
from trainyard.spec.problems import show
from trainyard.spec.sections.container import SECTION as CONTAINER
from trainyard.spec.sections.environment import has_container
from trainyard.spec.values.fields import priority_of

Packed = Mapping[str, Sequence[str]]  # by digest, the files of code that will be stored with the launch


class NeverFits(SpecError):
    """The cluster can never hold it, whatever ends; that is the first of the errors."""

    def __init__(self, cluster: Cluster, errors: Sequence[Problem]) -> None:
        super().__init__(errors)
        self.cluster = cluster


@dataclass(frozen=True)
class Launchable:
    """``spec`` has its dataset's fields filled in; ``nodes`` are all of the cluster's."""

    spec: Spec
    project: Project
    cluster: Cluster
    nodes: list[Node]


def check_launch(
    *,
    actor: access.Someone,
    document: Any,
    wanted: access.Wanted = access.Permission.RUNS_LAUNCH,
    packed: Packed | None = None,
) -> Launchable:
    """Return what would be queued. Raises SpecError for what is wrong with the document, NotFound for its project and
    Forbidden for who may not do what is ``wanted`` in it. Nothing is written."""
    spec = parse_launch(actor, document)
    project = access.project_by_name(actor, spec.project)
    access.require(actor, project, wanted)
    cluster = cluster_of(actor, project, spec)
    spec = with_runs_before(actor, project, resolve(spec, project, cluster))
    nodes = _nodes(cluster)
    above = why_not_so_high(actor, project, priority_of(spec.priority))
    problems = [_problem("priority", above)] if above else []
    if words := why_too_long(project, spec.resolved()):
        problems.append(Problem("limits.time", words))
    problems += [*_code_problems(project, spec, packed or {}), *origin_problems(actor, spec.resolved(), cluster)]
    problems += [*_secret_problems(actor, project, spec), *_container_problems(spec, cluster, nodes, packed or {})]
    problems += deadline_problems(spec)
    if (level := spec.resources.within) and level not in cluster.topology:
        levels = f"are {', '.join(cluster.topology)}" if cluster.topology else "are none"
        problems.append(
            Problem("resources.within", f"{show(level)} is no level of cluster {cluster.name}: its levels {levels}")
        )
    if room := check_fits(spec, nodes):
        raise NeverFits(cluster, [*room, *problems])
    if problems:
        raise SpecError(problems)
    return Launchable(spec, project, cluster, nodes)


def cluster_of(actor: access.Someone, project: Project, spec: Spec) -> Cluster:
    """Return the cluster that the spec names, for the project. Raises SpecError."""
    try:
        return access.get_cluster_for(actor, project, spec.cluster)
    except access.NotFound:
        raise SpecError([Problem("cluster", f"there is no cluster {spec.cluster!r}")]) from None
    except access.Forbidden as error:
        raise SpecError([_problem("cluster", str(error))]) from None


def parse_launch(actor: access.Someone, document: Any) -> Spec:
    """Raises SpecError. More nodes than there are come first: that a batch does not divide may only follow from it."""
    try:
        return parse_spec(document)
    except SpecError as error:
        cluster = _cluster_of(actor, document)
        room = check_room(document.get("resources"), _nodes(cluster)) if cluster else []
        if cluster is None or not room:
            raise
        raise NeverFits(cluster, [*room, *error.errors]) from None


def _cluster_of(actor: access.Someone, document: Any) -> Cluster | None:
    """The cluster that a document names which is no valid spec: its name may be anything, and so is compared here."""
    name = document.get("cluster", Spec.model_fields["cluster"].default) if isinstance(document, dict) else None
    if not access.has_scope(actor, access.Permission.CLUSTERS_READ):
        return None
    return next((cluster for cluster in access.visible_clusters(actor) if cluster.name == name), None)


def _nodes(cluster: Cluster) -> list[Node]:
    return list(Node.objects.registered().filter(cluster=cluster).select_related("cluster"))


def _code_problems(project: Project, spec: Spec, packed: Packed) -> list[Problem]:
    """Check that the code is a bundle of the project, or comes with the launch, and has what is to be run."""
    if not isinstance(spec, ScriptSpec) or spec.git_code is not None:
        return []  # what is in a repository is known once it has been fetched
    sha256 = spec.bundle_sha256
    if sha256 is None:
        return [Problem("task.code", "is a folder on your machine: upload it as a bundle (`trainyard submit` does)")]
    bundle = CodeBundle.objects.filter(project=project, sha256=sha256).first()
    if bundle is None and sha256 not in packed:
        return [Problem("task.code", f"there is no bundle {sha256[:12]} in project {project.name}: upload it first")]
    field, words = spec.task.missing_in(bundle.files if bundle else packed[sha256])
    return [Problem(f"task.{field}", words)] if field else []


def _secret_problems(actor: access.Someone, project: Project, spec: Spec) -> list[Problem]:
    person = actor if isinstance(actor, User) else None
    missing = missing_in(spec.resolved()["task"], project=project, person=person)
    found = [_problem(f"task.secrets.{index}", why) for index, why in missing.items()]
    if why := credentials_missing(spec.resolved(), project=project, person=person):
        found.append(_problem(f"{CONTAINER}.credentials", why))
    return found


def _problem(path: str, sentence: str) -> Problem:
    return Problem(path, f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}")


def _why_no_container(spec: Spec, cluster: Cluster, nodes: Sequence[Node]) -> str:
    """Say that the nodes which run containers can never hold it; nothing where all nodes together cannot either."""
    able = [node for node in nodes if runs_containers(node)]
    mend = "which it needs: install it there, or leave it out"
    if nodes and not able:
        return f"no node of cluster {cluster.name} has Podman, {mend}"
    if check_fits(spec, nodes) or not (room := check_fits(spec, able)):
        return ""
    have = f"{len(able)} of the {len(nodes)} nodes of cluster {cluster.name} {'has' if len(able) == 1 else 'have'}"
    return f"only {have} Podman, {mend}. Of these alone, {room[0].path} {room[0].message}"


def _container_problems(spec: Spec, cluster: Cluster, nodes: Sequence[Node], packed: Packed) -> list[Problem]:
    """Check that some node runs containers, and that the Containerfile is in the code."""
    if not isinstance(spec, ScriptSpec) or not has_container(spec.resolved()):
        return []
    found = [Problem(CONTAINER, words)] if (words := _why_no_container(spec, cluster, nodes)) else []
    file, sha256 = spec.environment.container.file, spec.bundle_sha256
    if file and sha256 is not None and spec.git_code is None:
        files = packed.get(sha256)
        if files is None:
            bundle = CodeBundle.objects.filter(project__name=spec.project, sha256=sha256).first()
            files = bundle.files if bundle else [file]
        if PurePosixPath(file).as_posix() not in files:
            found.append(Problem(f"{CONTAINER}.file", f"there is no file {show(file)} in the code"))
    return found

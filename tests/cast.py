"""The people and things that tests of the product are about: a small cast, and runs in any state."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from runs.models import Attempt, Cluster, HeldSlot, Membership, Node, Placement, Project, Role, Run, Sweep, Trial, User
from runs.values.status import FINAL, Phase, Status
from trainyard.contract.seals import new_key
from trainyard.contract.statuses import TrialState

_numbers = count(1)


@dataclass
class Cast:
    """Owner and team mate share a project; the viewer only looks; the outsider is in no project at all."""

    owner: User
    mate: User
    viewer: User
    outsider: User
    project: Project
    cluster: Cluster
    nodes: list[Node] = field(default_factory=list)


def make_cast() -> Cast:
    owner = make_user("owner", is_staff=True)
    mate, viewer, outsider = make_user("mate"), make_user("viewer"), make_user("outsider")
    project, _ = Project.objects.get_or_create(name="default")
    for user, role in ((owner, Role.OWNER), (mate, Role.MEMBER), (viewer, Role.VIEWER)):
        Membership.objects.create(project=project, user=user, role=role)
    cluster, _ = Cluster.objects.get_or_create(name="local")
    cluster.projects.add(project)
    return Cast(owner, mate, viewer, outsider, project, cluster)


def make_user(name: str, **changes: Any) -> User:
    user = User(username=name, **changes)
    user.set_unusable_password()
    user.save()
    return user


def allow_projects(user: User) -> User:
    """Grant the person the permission to make projects, as an administrator does."""
    user.user_permissions.add(permission("add_project"))
    for cached in ("_perm_cache", "_user_perm_cache"):  # Django reads a person's permissions once
        user.__dict__.pop(cached, None)
    return user


def permission(codename: str, app: str = "runs") -> Permission:
    """Return Django's permission to ``view_node``, ``add_project`` and so on, of a model of the product."""
    kind = ContentType.objects.get_for_model(apps.get_model(app, codename.partition("_")[2]))
    return Permission.objects.get_or_create(content_type=kind, codename=codename)[0]


def make_node(cluster: Cluster, name: str = "", **changes: Any) -> Node:
    """A node in contact with 2 CPU slots."""
    values: dict[str, Any] = {
        "name": name or f"node-{next(_numbers)}",
        "key": new_key(),
        "address": "127.0.0.1",
        "slots": 2,
        "seen_at": timezone.now(),
        "inventory": {"cpus": 2, "gpus": []},
    }
    return Node.objects.create(cluster=cluster, **{**values, **changes})


def spec(**changes: Any) -> dict[str, Any]:
    """A small valid spec; ``changes`` replace its sections."""
    return {
        "name": "hello-gpt",
        "project": "default",
        "cluster": "local",
        "resources": {"nodes": 1, "processes_per_node": 1},
        "task": {"recipe": "language-model"},
        "train": {"steps": 300, "batch_size": 32},
        **changes,
    }


def make_run(cast: Cast, **changes: Any) -> Run:
    """A run of the mate's, QUEUED unless told otherwise, without going through any rule."""
    document = changes.pop("spec", None) or spec()
    values: dict[str, Any] = {
        "project": cast.project,
        "cluster": cast.cluster,
        "name": document["name"],
        "spec": document,
        "created_by": cast.mate,
        "reason_code": "queued",
        "reason_sentence": "Waiting to be placed.",
    }
    if changes.get("status") in FINAL:
        values["ended_at"] = timezone.now()
    if changes.get("status") in {Status.RUNNING, *FINAL}:
        values["started_at"] = timezone.now() - timedelta(minutes=1)
    return Run.objects.create(**{**values, **changes})


def make_attempt(
    run: Run, nodes: list[Node], *, ranks: int = 1, phase: Phase = Phase.PREPARING, **changes: Any
) -> Attempt:
    """A live attempt with ``ranks`` ranks on each node, holding the nodes' first slots."""
    fence = run.next_fence()
    values: dict[str, Any] = {"number": fence, "fence": fence, "world_size": ranks * len(nodes)}
    if phase not in (Phase.PREPARING, Phase.READY):
        values |= {"go": {"master_addr": "127.0.0.1", "master_port": 29500}, "go_at": timezone.now()}
    attempt = Attempt.objects.create(run=run, **{**values, **changes})
    for node_rank, node in enumerate(nodes):
        placement = Placement.objects.create(
            attempt=attempt, node=node, node_rank=node_rank, first_rank=node_rank * ranks, num_ranks=ranks, phase=phase
        )
        for index in range(ranks):
            HeldSlot.objects.create(node=node, index=index, placement=placement)
    return attempt


def make_sweep(cast: Cast, **changes: Any) -> Sweep:
    """A sweep of the mate's that runs, with one trial that was pruned, without going through any rule."""
    document = {
        "name": "search",
        "base": spec(),
        "space": {"train.learning_rate": {"low": 0.001, "high": 0.1, "log": True}},
        "objective": {"metric": "val/loss"},
        "budget": {"trials": 4},
        **changes,
    }
    sweep = Sweep.objects.create(
        project=cast.project, cluster=cast.cluster, name=str(document["name"]), spec=document, base_spec=spec(),
        created_by=cast.mate,
    )  # fmt: skip
    Trial.objects.create(sweep=sweep, number=0, state=TrialState.PRUNED, parameters={"train.learning_rate": 0.01})
    return sweep

"""Going on: from a checkpoint of another run, and without a node. What is refused before any node is taken."""

from __future__ import annotations

from django.utils import timezone

from runs import replacing
from runs.access import NotFound, Someone, get_run, require
from runs.checkpoint_reference import Origin, origin_of
from runs.checkpoints import read as checkpoints
from runs.metrics.models import Checkpoint
from runs.models import Cluster, Role, Run, User
from runs.models.runs import StaleStatus
from runs.refused import Refused
from runs.tasks import reconcile_soon
from trainyard.contract.base import SpecDocument
from trainyard.spec import Problem

FIELD = "checkpoint.restore"
MAX_NAMED = 5


def origin_problems(actor: Someone, spec: SpecDocument, cluster: Cluster) -> list[Problem]:
    """Return why a run of the resolved spec cannot go on from the checkpoint that it names; nothing where it can."""
    origin = origin_of(spec)
    if origin is None:
        return []
    try:
        run = get_run(actor, origin.run)
    except NotFound:
        return [Problem(FIELD, f"{origin}: there is no run {origin.run!r} that you can see")]
    if checkpoints.find(run.pk, origin.step) is None:
        return [Problem(FIELD, f"{origin}: {_what_there_is(run, origin.step)}")]
    problems = _differences(spec, run)
    if run.cluster_id != cluster.pk:
        where = run.cluster.name if run.cluster else "no cluster"
        problems.append(Problem(FIELD, f"{origin}: its files are on {where}, and cluster {cluster.name} is asked for"))
    return problems


def newest_checkpoint(*, actor: User, run: Run) -> Origin:
    """Return the run's newest checkpoint. Raises Refused where it has none to go on from."""
    require(actor, run.project, Role.VIEWER)
    found = checkpoints.candidates(run.pk, before=run.fence + 1, number=1)
    if not found:
        raise Refused("no-checkpoint", f"Run {run.name} has no checkpoint to go on from.")
    return Origin(run.pk, found[0].step)


def _differences(spec: SpecDocument, run: Run) -> list[Problem]:
    """Name each part of the model that is not as it was in the run."""
    task, there = spec["task"], run.spec.get("task", {})
    if task.get("recipe") != there.get("recipe"):
        words = f"{task.get('recipe')} is not the {there.get('recipe') or 'script'} of run {run.name} ({run.pk})"
        return [Problem("task.recipe", f"{words}, from whose checkpoint {FIELD} goes on")]
    ours, theirs = task.get("model") or {}, there.get("model") or {}
    return [
        Problem(
            f"task.model.{name}",
            f"{ours.get(name)} is not the {theirs.get(name)} of run {run.name} ({run.pk}), from whose checkpoint "
            f"{FIELD} goes on",
        )
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _what_there_is(run: Run, step: int) -> str:
    steps = Checkpoint.objects.sound().filter(run_id=run.pk).order_by("-step").values_list("step", flat=True).distinct()
    if not steps:
        return f"run {run.name} has no checkpoint to go on from"
    named = ", ".join(str(one) for one in steps[:MAX_NAMED])
    more = " and older ones" if len(steps) > MAX_NAMED else ""
    return f"run {run.name} has no checkpoint of step {step} to go on from; it has {named}{more}"


def exclude_node(*, actor: User, run: Run, node: str) -> Run:
    """Have the run go on without the node of this name: its ranks save and end, and it is placed again on others.

    Refused where it does not train there, where no other node can take its place, and where it would lose its steps.
    """
    require(actor, run.project, Role.MEMBER)
    attempt = run.attempts.filter(ended_at=None).prefetch_related("placements__node").first()
    placed = attempt.placements.all() if attempt is not None else ()
    found = next((one.node for one in placed if one.node.name == node), None)
    if attempt is None or found is None:
        raise Refused("not-there", f"Run {run.name} does not run on a node {node} now.")
    try:
        replacing.go_on_without(run, attempt, found, why="asked for", actor=actor, now=timezone.now())
    except StaleStatus:
        raise Refused("busy", f"Run {run.name} has just changed. Try again.") from None
    reconcile_soon(run.pk)
    return run

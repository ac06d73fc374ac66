"""Going on: from a checkpoint of another run, from an earlier step, and without a node. What is refused before any node
is taken."""

from django.utils import timezone

from runs.life import replacing, rewinding
from runs.models import Cluster, Run, User
from runs.models.runs import StaleStatus
from runs.records.checkpoints import read as checkpoints
from runs.records.metrics.models import Checkpoint
from runs.recovery.fencing import unconfirmed_nodes
from runs.rights.access import NotFound, Permission, Someone, get_run, require, require_use
from runs.tasks import reconcile_soon, schedule_soon
from runs.values.refused import Refused
from runs.values.run_config import Origin, origin_of
from trainyard.contract.base import SpecDocument
from trainyard.formats.words import listed
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
    require(actor, run.project, Permission.RUNS_READ)
    found = checkpoints.candidates(run.pk, before=run.fence + 1, number=1)
    if not found:
        raise Refused("no-checkpoint", f"Run {run.name} has no checkpoint to go on from.")
    return Origin(run.pk, found[0].step)


def _differences(spec: SpecDocument, run: Run) -> list[Problem]:
    """Name each part of the model that is not as it was in the run."""
    task, there = spec["task"], run.spec.get("task", {})
    of_run = f"of run {run.name} ({run.pk}), from whose checkpoint {FIELD} goes on"
    if task.get("recipe") != there.get("recipe"):
        words = f"{task.get('recipe')} is not the {there.get('recipe') or 'script'} {of_run}"
        return [Problem("task.recipe", words)]
    ours, theirs = task.get("model") or {}, there.get("model") or {}
    return [
        Problem(f"task.model.{name}", f"{ours.get(name)} is not the {theirs.get(name)} {of_run}")
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
    require(actor, run.project, Permission.RUNS_LAUNCH)
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


def rewind_run(*, actor: User, run: Run, to: int, first: int, last: int) -> Run:
    """Have the run go on from its newest checkpoint up to step ``to``, without the batches of the steps ``first`` to
    ``last``, as it counts them now. A run that has failed, or that was stopped or paused, is queued again.

    Raises SpecError for steps that do not go together, and Refused where the run's state does not allow it.
    """
    require(actor, run.project, Permission.RUNS_LAUNCH)
    if run.cluster is not None:
        require_use(run.project, run.cluster, actor)
    if run.live_attempt() is None and (names := unconfirmed_nodes(run)):
        raise Refused("still-held", f"{listed(names)} must confirm first that nothing of run {run.name} is left there.")
    try:
        rewinding.go_back(run, to_step=to, first=first, last=last, actor=actor, now=timezone.now())
    except StaleStatus:
        raise Refused("busy", f"Run {run.name} has just changed. Try again.") from None
    reconcile_soon(run.pk)
    schedule_soon(run.cluster_id)
    return run

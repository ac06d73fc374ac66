"""Ending an attempt gracefully so that another one takes its place: without a node, or from an earlier step.

The ranks are asked to end as for a pause; the run is not paused then, but placed again at once.
"""

from collections import defaultdict
from dataclasses import replace as changed
from datetime import datetime

from django.db import transaction
from django.utils import timezone
from msgspec.structs import replace

from runs.engines import engine_of
from runs.life import stopping
from runs.models import Attempt, HeldSlot, Node, Run, User
from runs.models.attempts import REPLACE
from runs.placing.fitting import Placed
from runs.placing.queue import request_of
from runs.placing.scheduling import place
from runs.values.columns import LeftOutNode
from runs.values.refused import Refused
from runs.values.status import Status, Wanted
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import Cause

LEFT_OUT_S = 86_400.0  # what was left out on request is not tried again by itself for a day
PLACED_ANEW = "placed-anew"


def go_on_without(run: Run, attempt: Attempt, node: Node, *, why: str, actor: User | None, now: datetime) -> None:
    """Have the ranks save and end, and the run placed again without the node.

    Raises Refused where the run cannot do without it, or would lose its steps; StaleStatus where it has changed.
    """
    if attempt.go is None or run.status != Status.RUNNING:
        sentence = f"Run {run.name} is {run.status}. Only a run that trains can go on without a node."
        raise Refused("not-running", sentence)
    if not any(one.node_id == node.pk for one in attempt.placements.all()):
        raise Refused("not-there", f"Run {run.name} does not run on node {node.name}.")
    if "recipe" in run.spec["task"] and not run.saves_at_stop:
        raise Refused("no-checkpoints", f"Run {run.name} keeps no checkpoints, so it would lose every step.")
    if not can_do_without(run, attempt, node, now):
        raise Refused("no-other-node", f"No other node can take the place of {node.name} now.")
    until = now.timestamp() + LEFT_OUT_S
    left_out = [one for one in run.restarts.left_out if one.node != node.pk]
    left_out.append(LeftOutNode(node=node.pk, name=node.name, why=why, until=until))
    what = stopping.what_ranks_do(run, attempt)
    asked = f"{actor} asked to go on without {node.name}" if actor else f"{why}, so the run goes on without {node.name}"
    words = f"{asked}: {what}, and the run is placed again."
    with transaction.atomic():
        run.recovery = to_builtins(replace(run.restarts, left_out=left_out))
        Run.objects.filter(pk=run.pk).update(recovery=run.recovery, changed_at=timezone.now())
        stopping.begin(run, attempt, why=REPLACE, code="excluding-node", sentence=words, now=now, actor=actor)


def place_anew(attempt: Attempt, *, sentence: str, cause: Cause | None, now: datetime) -> None:
    """End the attempt, whose ranks are gone, and have the run placed again. Raises what ``move_to`` raises."""
    run = attempt.run
    with transaction.atomic():
        run.wanted = Wanted.RUN
        Run.objects.filter(pk=run.pk).update(wanted=Wanted.RUN)
        run.move_to(Status.RECOVERING, code=PLACED_ANEW, sentence=sentence, attempt=attempt, recover_at=now)
        attempt.end(now, code=PLACED_ANEW, sentence=sentence, cause=cause)


def can_do_without(run: Run, attempt: Attempt, node: Node, now: datetime) -> bool:
    """Return whether other nodes have room for the run, with the slots that it holds itself."""
    if run.cluster is None:
        return False
    held: dict[str, tuple[int, ...]] = defaultdict(tuple)
    for node_id, index in HeldSlot.objects.filter(placement__attempt=attempt).values_list("node_id", "index"):
        held[node_id] += (index,)
    rooms = [
        changed(room, free=tuple(sorted({*room.free, *held[room.node]})))
        for room in engine_of(run.cluster).capacity(run.cluster, now)
    ]
    request = changed(request_of(run.pk, run.spec), excluded=frozenset({node.pk}))
    return isinstance(place(run.cluster.name, [request], rooms)[0], Placed)

"""Asking for a trace of some steps of a run that trains."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from django.db import transaction
from django.utils import timezone

from runs.life.rewinding import refuse_without_steps
from runs.models import Attempt, Run, User
from runs.records.metrics import progress
from runs.records.metrics.models import Telemetry
from runs.rights.access import Permission, require
from runs.values.ids import new_id
from runs.values.refused import Refused
from runs.values.status import Status
from trainyard.spec import Problem, SpecError

MAX_STEPS = 20
WAY_S = 5.0  # until every rank has the request: the traced steps begin later than that
FORGOTTEN_S = 600.0  # after so long without an answer another trace may be requested

Ranks = Literal["all"] | Sequence[int]


class Trace(NamedTuple):
    """The steps and ranks that will be traced. Steps are inclusive."""

    id: str
    first_step: int
    last_step: int
    ranks: list[int]


def trace_run(*, actor: User, run: Run, steps: int = 3, ranks: Ranks = "all") -> Trace:
    """Have the next steps traced on these ranks, as soon as all can have the request.

    Raises SpecError for ranks and numbers of steps that cannot be, Refused where the run's state does not allow it.
    """
    require(actor, run.project, Permission.RUNS_LAUNCH)
    refuse_without_steps(
        run,
        elsewhere="nobody here can trace it.",
        script="whose steps Trainyard does not see. Trace them in it, with torch.profiler.profile, and write the trace "
        "into the folder TRAINYARD_OUTPUT.",
        nothing="it has no steps to trace.",
    )
    if not 1 <= steps <= MAX_STEPS:
        raise SpecError([Problem("steps", f"{steps} is not accepted; accepted: 1 to {MAX_STEPS}")])
    with transaction.atomic():
        attempt = Attempt.objects.select_for_update().filter(run=run, ended_at=None).first()
        if run.status != Status.RUNNING or attempt is None:
            raise Refused("not-running", f"Run {run.name} is {run.status}. Only steps of a run that trains are traced.")
        chosen = _chosen(ranks, attempt.world_size)
        _refuse_second(attempt)
        first = _first_step(run, steps)
        trace = Trace(new_id(), first, first + steps - 1, chosen)
        request = {"id": trace.id, "first": first, "steps": steps, "ranks": "all" if ranks == "all" else chosen}
        attempt.trace = {**request, "asked_at": timezone.now().timestamp(), "is_told": False}
        attempt.save(update_fields=["trace"])
        sentence = f"{actor} asked for a trace of {in_words(trace.first_step, trace.last_step)}."
        run.record("trace-asked", sentence, data=request, actor=actor, attempt=attempt)
    return trace


def in_words(first: int, last: int) -> str:
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


def _chosen(ranks: Ranks, world_size: int) -> list[int]:
    if ranks == "all":
        return list(range(world_size))
    chosen = sorted({int(rank) for rank in ranks})
    strange = [rank for rank in chosen if not 0 <= rank < world_size]
    if strange or not chosen:
        what = f"{strange[0]} is no rank of this run" if strange else "no rank is chosen"
        raise SpecError([Problem("ranks", f"{what}; accepted: all, or numbers from 0 to {world_size - 1}")])
    return chosen


def _refuse_second(attempt: Attempt) -> None:
    trace = attempt.trace
    if trace is None or trace["is_told"] or timezone.now().timestamp() - trace["asked_at"] > FORGOTTEN_S:
        return
    last = trace["first"] + trace["steps"] - 1
    raise Refused("trace-under-way", f"A trace of {in_words(trace['first'], last)} is under way. Wait for its end.")


def _first_step(run: Run, steps: int) -> int:
    """Return a step that no rank has begun when the last rank receives the request."""
    telemetry = progress.telemetry([run.pk]).get(run.pk) or Telemetry(run_id=run.pk)
    if telemetry.step is None:
        raise Refused("no-step-yet", f"Run {run.name} has not taken a step yet. Ask again when it has.")
    ahead_s = WAY_S
    if telemetry.step_at is not None:  # steps since then have not arrived here
        ahead_s += min(WAY_S, max(0.0, timezone.now().timestamp() - telemetry.step_at))
    first = telemetry.step + 2 + math.ceil(ahead_s / max(telemetry.median_step_s or 1.0, 1e-4))
    if run.steps is not None and first + steps - 1 > run.steps:
        words = f"the {steps} steps from {first:,} on, the first that all ranks can know of, are more than are left."
        raise Refused("too-late", f"Run {run.name} is at step {telemetry.step:,} of {run.steps:,}: {words}")
    return first

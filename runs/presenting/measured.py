"""What a run's ranks measured of themselves, put together so that it can stand beside what the planner said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean
from typing import Any, TypedDict

from runs.metrics.facts import facts_of
from runs.models import Run
from runs.presenting.throughput import throughputs

MEASURED = "measured"  # the fact that every rank tells: see workers.training.measuring.measures
Facts = dict[int, dict[str, Any]]


class Measured(TypedDict):
    """In the words of an estimate; None: no rank reported it."""

    num_ranks: int
    step: float | None
    num_steps: float | None
    memory: dict[int, float | None]
    step_time: dict[str, float | None]
    sent_bytes: float | None
    flops_per_step: float | None
    mfu: float | None
    units_per_second: float | None


def measured_of(run: Run) -> Measured | None:
    """Return what the newest attempt measured, in the words of an estimate; None where no rank told anything.

    Times are means over ranks, but for the step itself, which takes as long as for the slowest; ``communication`` has
    in it what a rank waits for others, so that a pipeline's bubble is there too.
    """
    facts = facts_of(run.pk, MEASURED)
    if not facts:
        return None
    phases = {
        name: _over(facts, fmean, "phases", name) for name in ("data", "communication", "optimizer", "checkpoint")
    }
    forward, backward = _over(facts, fmean, "phases", "forward"), _over(facts, fmean, "phases", "backward")
    compute = None if forward is None or backward is None else forward + backward
    total = _over(facts, max, "step_time_s")
    mfu, units_per_second = _speed(run, facts, total)
    return {
        "num_ranks": len(facts),
        "step": _over(facts, max, "step"),
        "num_steps": _over(facts, min, "num_steps"),
        "memory": {rank: _number(one.get("peak_memory_bytes")) for rank, one in facts.items()},
        "step_time": {"compute": compute, **phases, "total": total},
        "sent_bytes": _over(facts, max, "sent_bytes"),
        "flops_per_step": _over(facts, sum, "flops_per_step"),
        "mfu": mfu,
        "units_per_second": units_per_second,
    }


def _speed(run: Run, facts: Facts, total: float | None) -> tuple[float | None, float | None]:
    """Return MFU and units per second as everywhere; of a run that logged neither, what its ranks' facts say."""
    logged = throughputs([run.pk])[run.pk]
    mfu = _over(facts, fmean, "mfu") if logged.mfu is None else logged.mfu
    return mfu, _rate(run, total) if logged.value is None else logged.value


def _rate(run: Run, total: float | None) -> float | None:
    """As many units as the plan counted with in a step, in the time that a step took: the batch is the same."""
    estimate = run.estimate or {}
    rate, seconds = estimate.get("units_per_second"), (estimate.get("step_time") or {}).get("total")
    return rate * seconds / total if rate and seconds and total else None


def _over(facts: Facts, how: Callable[[Iterable[float]], float], *names: str) -> float | None:
    values = []
    for one in facts.values():
        value: Any = one
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        if (number := _number(value)) is not None:
            values.append(number)
    return how(values) if values else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None

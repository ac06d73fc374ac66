"""Measurements of a run's ranks by themselves, put together so that it can stand beside what the planner said."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, TypedDict

from runs.models import Run
from runs.records.metrics.progress import facts_of
from runs.records.points import read
from trainyard.contract.facts import MEASURED, EstimateDocument, MeasuredFacts, StepTimeDocument
from trainyard.formats import figures

RATES = {f"train/{unit}_per_second": words for unit, words in figures.RATES.items()}  # the first that a run logs
MFU = "train/mfu"
SPEEDS = (*RATES, MFU)
Facts = Mapping[int, MeasuredFacts]  # by rank


class Measured(TypedDict):
    """Measurements in the words of an estimate; None: no rank reported it."""

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
    in it what a rank waits for others, so that a pipeline's bubble is there too. ``waiting`` is above the least of all.
    """
    if not (facts := facts_of(run.pk, MEASURED, MeasuredFacts)):
        return None
    phases = {name: _phase(facts, name) for name in ("data", "communication", "optimizer", "checkpoint")}
    forward, backward = _phase(facts, "forward"), _phase(facts, "backward")
    compute = None if forward is None or backward is None else forward + backward
    least = over(min, (one.phases.get("communication") for one in facts.values()))
    waiting = None if least is None else (phases["communication"] or 0.0) - least
    total = over(max, (one.step_time_s for one in facts.values()))
    mfu, units_per_second = _speed(run, facts, total)
    return {
        "num_ranks": len(facts),
        "step": over(max, (one.step for one in facts.values())),
        "num_steps": over(min, (one.num_steps for one in facts.values())),
        "memory": {rank: one.peak_memory_bytes for rank, one in facts.items()},
        "step_time": {"compute": compute, **phases, "waiting": waiting, "total": total},
        "sent_bytes": over(max, (one.sent_bytes for one in facts.values())),
        "flops_per_step": over(sum, (one.flops_per_step for one in facts.values())),
        "mfu": mfu,
        "units_per_second": units_per_second,
    }


def _speed(run: Run, facts: Facts, total: float | None) -> tuple[float | None, float | None]:
    """Return MFU and units per second as everywhere; of a run that logged neither, what its ranks' facts say."""
    logged = throughputs([run.pk])[run.pk]
    mfu = over(fmean, (one.mfu for one in facts.values())) if logged.mfu is None else logged.mfu
    return mfu, _rate(run, total) if logged.value is None else logged.value


def _rate(run: Run, total: float | None) -> float | None:
    """As many units as the plan counted with in a step, in the time that a step took: the batch is the same."""
    estimate: EstimateDocument = run.estimate or EstimateDocument()
    rate, seconds = estimate.get("units_per_second"), estimate.get("step_time", StepTimeDocument()).get("total")
    return rate * seconds / total if rate and seconds and total else None


def _phase(facts: Facts, name: str) -> float | None:
    return over(fmean, (one.phases.get(name) for one in facts.values()))


def over(how: Callable[[Iterable[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return how(known) if known else None


# Speed of a training: one number for its page, the tables, the plan, REST and the terminal.


class Throughput(NamedTuple):
    """Medians over the steady part of a run; ``mfu`` is a share of what its devices can do. None: not logged."""

    value: float | None = None
    unit: str = ""
    mfu: float | None = None


def throughputs(run_ids: Sequence[str]) -> dict[str, Throughput]:
    """Return how fast each run trains. A single step, the last one too, may have validated or saved a checkpoint."""
    medians = read.steady_medians(run_ids, SPEEDS)
    return {run_id: throughput_of(medians.get(run_id, {})) for run_id in run_ids}


def throughput_of(medians: dict[str, float]) -> Throughput:
    name = next((name for name in RATES if name in medians), "")
    return Throughput(medians.get(name), RATES.get(name, ""), medians.get(MFU))

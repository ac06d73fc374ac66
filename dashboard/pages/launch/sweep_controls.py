"""The fields of a sweep as the launch form draws them: words, choices, and what is wrong beside each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainyard.spec import KINDS, Problem
from trainyard.spec.sweeps.models import MAX_SEEDS

METRICS = ("val/loss", "val/accuracy", "val/r2", "train/loss", "train/tokens_per_second", "train/samples_per_second")
SAMPLERS = {
    "tpe": "TPE: learns from what it tried",
    "gp": "Gaussian process: few, costly trials",
    "cmaes": "CMA-ES: many trials over numbers",
    "random": "random",
    "quasi-random": "quasi-random: spread evenly",
    "grid": "grid: every combination",
    "nsga2": "NSGA-II: several objectives",
    "population": "population: trains on from better trials",
}
PRUNERS = {
    "none": "none: every trial runs to its end",
    "median": "median: worse than half of the others",
    "asha": "ASHA: the best third goes on",
    "hyperband": "Hyperband: ASHA with several first steps",
}
MEASURES = {"steps": "steps", "time": "seconds of training", "tokens": "tokens"}
WAYS = {"minimize": "lower", "maximize": "higher"}
OF = {"last": "its last value", "best": "its best value", "area": "the area below it"}
WARM = {"": "none", "on": "runs of the project that fit"}
KINDS_OF_TASK = " ".join(KINDS)
ALONE = " ".join(one for one in SAMPLERS if one != "population")  # a population stops bad trials itself


class SweepField(NamedTuple):
    """A field of the form. ``choices`` make it a list; ``paths`` are those of problems that stand beside it; ``needs``
    are the samplers that read it, with spaces between them."""

    name: str
    label: str
    help: str
    paths: tuple[str, ...]
    choices: Mapping[str, str] | None = None
    is_whole: bool = True  # a number
    example: str = ""
    is_metric: bool = False
    is_double: bool = False
    needs: str = ""


class SweepControl(NamedTuple):
    info: SweepField
    id: str
    value: str
    options: list[tuple[str, str, bool]]  # value, words, and whether it is the one that was typed
    problem: str
    is_hidden: bool
    kinds: str  # of task: all have it


MAIN = (
    SweepField("metric", "Objective", "A metric that each trial logs.", ("objective", "objective.0"), is_metric=True),
    SweepField("direction", "Better is", "Where it goes.", ("objective.direction", "objective.0.direction"), WAYS),
    SweepField("of", "What counts", "Of all its values in a trial.", ("objective.of", "objective.0.of"), OF),
    SweepField("trials", "Trials", "Each is a whole run.", ("budget", "budget.trials")),
    SweepField("parallel", "At once", "Trials that train side by side.", ("budget.parallel",)),
    SweepField("sampler", "Search", "How the next values are chosen.", ("sampler",), SAMPLERS, is_double=True),
    SweepField(
        "size", "Members", "Trials that take over from each other.", ("sampler.size",), needs="population"
    ),
    SweepField(
        "interval", "Compare every", "Steps between two comparisons.", ("sampler.interval",), needs="population"
    ),
    SweepField(
        "pruner", "Early stopping", "Ends trials that are behind. They keep their checkpoint.", ("pruner",), PRUNERS,
        is_double=True, needs=ALONE,
    ),
    SweepField(
        "by", "Compared by", "How far trials must have come to be compared.", ("pruner.by",), MEASURES, needs=ALONE
    ),
    SweepField("min", "First look at", "So many steps, seconds or tokens. Empty: the first validation.",
               ("pruner.min",), needs=ALONE),
)  # fmt: skip
ADVANCED = (
    SweepField("ahead", "Queued ahead", "Trials that wait for a place, so that the next one starts at once. Empty: "
               "none where the search learns from trials.", ("budget.ahead",)),
    SweepField("seeds", "Seeds a trial", f"Runs of its values, up to {MAX_SEEDS}. Their mean counts.", ("seeds",)),
    SweepField("time", "Time limit", "Then no trial is started.", ("budget.time",), is_whole=False, example="12h"),
    SweepField("gpu_hours", "GPU-hours at most", "Hours times slots, of all trials.", ("budget.gpu_hours",),
               is_whole=False, example="24"),
    SweepField("failures", "Failures in a row", "So many end the sweep.", ("budget.failures",)),
    SweepField("second", "Second objective", "Then there is a front, and no best trial.", ("objective.1",),
               is_metric=True),
    SweepField("second_direction", "Better is", "Of the second objective.", ("objective.1.direction",), WAYS),
    SweepField("seed", "Seed of the search", "The same results give the same trials.", ("seed",)),
    SweepField("warm_start", "Earlier runs", "Count as trials that are over.", ("warm_start",), WARM),
)  # fmt: skip


def controls_of(
    fields: Sequence[SweepField], texts: Mapping[str, str], problems: Sequence[Problem]
) -> list[SweepControl]:
    return [
        SweepControl(
            info=one,
            id=f"sweep-{one.name.replace('_', '-')}",
            value=texts[one.name],
            options=[(value, words, value == texts[one.name]) for value, words in (one.choices or {}).items()],
            problem="; ".join(problem.message for problem in problems if field_of(problem.path) == one.name),
            is_hidden=bool(one.needs) and texts["sampler"] not in one.needs.split(),
            kinds=KINDS_OF_TASK,
        )
        for one in fields
    ]


def field_of(path: str) -> str:
    """The name of the field that a problem's path belongs to; empty where there is none."""
    found = [
        (len(start), one.name)
        for one in (*MAIN, *ADVANCED)
        for start in one.paths
        if path == start or path.startswith(f"{start}.")
    ]
    return max(found)[1] if found else ""

"""Sweeps: what a trial costs beside its training, how soon a search finds a good point, and how long a suggestion takes
after many trials."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import goals
from benchmarks.stack import running
from benchmarks.sweeping import curves, overhead
from benchmarks.table import Row, middle, scale, scaled, spread_of
from runs.sweeps.search.suggest import suggest
from runs.sweeps.search.trials import PastTrial, Question
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec, parse_sweep

TRIALS = 24
SEEDS = 10
MANY = 10_000


def rows() -> list[Row]:
    return [overhead_row(), search_row(), suggestion_row()]


def overhead_row() -> Row:
    trials = scaled(TRIALS, least=6)
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-sweep-") as folder:
        by_optuna = overhead.gaps(overhead.optuna_processes(trials))
        by_ray = overhead.ray_tune(trials, Path(folder))
    with running() as stack:
        found = overhead.gaps(overhead.ours(stack, trials))
    return Row(
        "from the last step of a trial to the first step of the next one, 2 at a time",
        middle(found),
        "s",
        middle(by_optuna),
        "Optuna, a process each",
        goal=goals.SWEEP_OVERHEAD,
        spread=spread_of(found),
        others={"Ray Tune": middle(overhead.gaps(by_ray)) if by_ray else None},
        note=f"{trials} trials of {overhead.STEPS} steps of a small net on the digits, 2 warm nodes of this machine"
        + ("" if by_ray else "; Ray Tune is not installed among the peers"),
    )


def search_row() -> Row:
    table = {key: curves.curve(key) for key in curves.points(scale())}
    seeds = range(scaled(SEEDS, least=3))
    found = list(curves.searches(table, seeds, "tpe", "asha"))
    plain = list(curves.searches(table, seeds, "random", "none"))
    best = max(one[-1].value for one in table.values())
    return Row(
        f"steps until within {curves.WITHIN:g} points of the best known, 6 fields of the digits",
        middle(found),
        "steps",
        middle(plain),
        "random search",
        goal=goals.SWEEP_SEARCH,
        spread=spread_of([float(one) for one in found]),
        others={"TPE alone": middle(list(curves.searches(table, seeds, "tpe", "none")))},
        note=f"ASHA and TPE, {len(seeds)} seeds, over the recorded curves of {len(table)} trainings of {curves.STEPS} "
        f"steps; the best has {best:.2f} %",
    )


def suggestion_row() -> Row:
    many = scaled(MANY, least=1_000)
    times = []
    few, lot = past_trials(100), past_trials(many)
    spec = space()
    suggest(Question(spec, 100, 100, few, {}))  # what is imported lazily
    for place in range(5):
        started = time.perf_counter()
        suggest(Question(spec, many + place, many + place, lot, {}))
        times.append(1e3 * (time.perf_counter() - started))
    started = time.perf_counter()
    suggest(Question(spec, 100, 100, few, {}))
    return Row(
        f"a suggestion of TPE after {many:,} trials of 6 fields",
        middle(times),
        "ms",
        1e3 * (time.perf_counter() - started),
        "after 100 trials",
        goal=goals.SWEEP_SUGGESTION,
        spread=spread_of(times),
    )


def space() -> SweepSpec:
    return parse_sweep(
        {
            "name": "many",
            "base": {"name": "b", "task": {"recipe": "image-classifier"}},
            "space": {f"task.environment.X{place}": {"low": 0.0, "high": 1.0} for place in range(6)},
            "objective": {"metric": "val/loss"},
            "budget": {"trials": 2 * MANY},
        }
    )


def past_trials(count: int) -> list[PastTrial]:
    """Trials with values that a search could learn from."""
    units = np.random.default_rng(0).random((count, 6))
    return [
        PastTrial(
            number,
            TrialState.COMPLETE,
            {f"task.environment.X{place}": float(unit) for place, unit in enumerate(row)},
            (float(((row - 0.3) ** 2).sum()),),
            100,
        )
        for number, row in enumerate(units)
    ]

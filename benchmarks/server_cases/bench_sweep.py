"""Sweeps: what a trial costs beside its training, how soon a search finds a good point, and how long a suggestion and
the page take after many trials."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import goals
from benchmarks.stack import running
from benchmarks.sweeping import curves, overhead, population
from benchmarks.sweeping.page import PARTS, visits_of
from benchmarks.table import Row, middle, scaled, spread_of
from runs.sweeps.search.gaussian import GENERATION
from runs.sweeps.search.plain import PastTrial, SamplerQuestion
from runs.sweeps.search.suggest import suggest
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec, parse_sweep
from trainyard.spec.sweeps.models import SamplerName

TRIALS = 24
SEEDS = 10
POPULATION_SEEDS = 5
WHOLE_TRIALS, MOST_STEPS = 60, 40_000  # of a search: what all of them train, and where one that is not near ends
MANY, FEW = 10_000, 20


def rows() -> list[Row]:
    return [overhead_row(), search_row(), population_row(), suggestion_row("tpe"), suggestion_row("cmaes"), page_row()]


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
    seeds, trials = range(scaled(SEEDS, least=3)), scaled(WHOLE_TRIALS, least=20)
    ours, alone, plain = (
        curves.searches(seeds, sampler, pruner)
        for sampler, pruner in (("tpe", "asha"), ("tpe", "none"), ("random", "none"))
    )
    most = scaled(MOST_STEPS, least=trials * curves.STEPS)
    goal = curves.search_until_near([*ours, *alone, *plain], trials * curves.STEPS, most)
    until = [float(one.steps_until(goal)) for one in ours]
    short = {"ASHA and TPE": ours, "TPE alone": alone, "random": plain}
    missed = ", ".join(f"{name} {sum(one.best < goal for one in many)}" for name, many in short.items())
    return Row(
        f"steps until within {curves.WITHIN:g} points of the best known, 6 fields of the digits",
        middle(until),
        "steps",
        middle([float(one.steps_until(goal)) for one in plain]),
        "random search",
        goal=goals.SWEEP_SEARCH,
        spread=spread_of(until),
        others={"TPE alone": middle([float(one.steps_until(goal)) for one in alone])},
        note=f"ASHA and TPE, {len(seeds)} seeds; every search has {most:,} steps of a small net at the most; the best "
        f"known has {goal + curves.WITHIN:.2f} %; searches that did not get there count with all of their steps, which "
        f"is too few: {missed} of {len(seeds)}",
    )


def population_row() -> Row:
    seeds = range(scaled(POPULATION_SEEDS, least=1))
    ours = [population.population(seed) for seed in seeds]
    kept = [population.constant(seed) for seed in seeds]
    wins = sum(one <= other for one, other in zip(ours, kept, strict=True))
    return Row(
        f"loss of the language model after {population.STEPS} steps of a population of {population.SIZE}",
        middle(ours),
        "nats",
        middle(kept),
        "its best member with a constant rate",
        goal=goals.SWEEP_POPULATION,
        spread=spread_of(ours),
        note=f"{len(seeds)} seeds, no worse in {wins} of them; the members begin alike and train as many steps, "
        f"and are compared every {population.INTERVAL}",
    )


def suggestion_row(sampler: SamplerName) -> Row:
    many = scaled(MANY, least=1_000)
    times = []
    few, lot = past_trials(100), past_trials(many)
    spec = space(sampler)
    suggest(SamplerQuestion(spec, 100, 100, few, {}))  # what is imported lazily
    first = suggest(SamplerQuestion(spec, many, many, lot, {}))
    state = (first.study_state if first is not None else None) or {}  # as it is kept with the sweep
    for place in range(1, 6):
        started = time.perf_counter()
        suggest(SamplerQuestion(spec, many + place, many + place, lot, state))
        times.append(1e3 * (time.perf_counter() - started))
    started = time.perf_counter()
    suggest(SamplerQuestion(spec, 100, 100, few, {}))
    return Row(
        f"a suggestion of {sampler} after {many:,} trials of 6 fields",
        middle(times),
        "ms",
        1e3 * (time.perf_counter() - started),
        "after 100 trials",
        goal=goals.SWEEP_SUGGESTION,
        spread=spread_of(times),
    )


def space(sampler: SamplerName) -> SweepSpec:
    return parse_sweep(
        {
            "name": "many",
            "base": {"name": "b", "task": {"recipe": "image-classifier"}},
            "space": {f"task.environment.X{place}": {"low": 0.0, "high": 1.0} for place in range(6)},
            "objective": {"metric": "val/loss"},
            "budget": {"trials": 2 * MANY},
            "sampler": sampler,
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
            {GENERATION: number // 9},  # of CMA-ES, whose generations of 6 fields are so large
        )
        for number, row in enumerate(units)
    ]


def page_row() -> Row:
    many = scaled(MANY, least=200)
    short, long = visits_of((FEW, many))
    drawn = [one["drawn"] for one in long]
    return Row(
        f"page of a sweep of {many:,} trials in Chromium: its rows and all pictures in view are drawn",
        middle(drawn),
        "ms",
        middle(one["drawn"] for one in short),
        f"of {FEW} trials",
        goal=goals.SWEEP_PAGE,
        spread=spread_of(drawn),
        others={name: middle(one[name] for one in long) for name in PARTS},
    )

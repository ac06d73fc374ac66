"""CMA-ES (Hansen 2016) by the library cmaes. Its state is no stored object: it is built anew from the trials of each
generation, which carry the generation that proposed them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from runs.sweeps.search.plain import random
from runs.sweeps.search.trials import PastTrial, Question, Suggestion
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import ordered
from trainyard.spec.sweeps.units import unit_of, value_at

if TYPE_CHECKING:
    from cmaes import CMA

GENERATION = "cma_generation"
SIGMA = 1 / 6


def covariance(question: Question) -> Suggestion:
    space = question.spec.space
    if len(space) == 1:
        return random(question)  # the method is for two dimensions and more
    paths = ordered(space)
    optimizer, generation = _replayed(question, paths)
    # The library draws from a generator of its own: here that of the trial.
    optimizer.reseed_rng(question.sampler_seed())
    units = optimizer.ask()
    parameters = {path: value_at(space[path], float(unit)) for path, unit in zip(paths, units, strict=True)}
    return Suggestion(parameters, {GENERATION: generation})


def _replayed(question: Question, paths: Sequence[str]) -> tuple[CMA, int]:
    """Return the optimizer after all generations that are complete, and the number of the next."""
    from cmaes import CMA  # control alone needs it, and only for such a sweep

    size = question.spec.sampler.population or 4 + math.floor(3 * math.log(len(paths)))
    optimizer = CMA(
        mean=np.full(len(paths), 0.5), sigma=SIGMA, bounds=np.tile([0.0, 1.0], (len(paths), 1)),
        seed=question.spec.seed, population_size=size,
    )  # fmt: skip
    by_generation: dict[int, list[PastTrial]] = {}
    for trial in question.trials:
        if GENERATION in trial.attributes:  # the space may be wider since, but no narrower
            by_generation.setdefault(int(trial.attributes[GENERATION]), []).append(trial)
    generation = 0
    while len(told := _solutions(question, paths, by_generation.get(generation, []))) >= size:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of generations in which all values are alike
            optimizer.tell(told[:size])
        generation += 1
    return optimizer, generation


def _solutions(question: Question, paths: Sequence[str], trials: Sequence[PastTrial]) -> list[tuple[Any, float]]:
    """Return the points and values of the trials that completed. One that was pruned is worse than all of these."""
    sign = question.spec.objectives[0].sign
    space = question.spec.space
    values = {one.number: sign * one.values[0] for one in trials if one.state == TrialState.COMPLETE and one.values}
    worst = max(values.values(), default=0.0)
    found = []
    for one in trials:
        if one.number in values or one.state == TrialState.PRUNED:
            point = np.array([unit_of(space[path], one.parameters[path]) for path in paths])
            found.append((point, values.get(one.number, worst + 1.0)))
    return found

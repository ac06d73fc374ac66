"""CMA-ES (Hansen 2016) by the library cmaes. Its state after each generation is kept with the sweep as plain numbers,
in the transaction that writes the trial: whoever proposes next goes on from there, in whatever process. A generation is
the trials that carry its number; those that end after it was complete do not change it."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from runs.sweeps.search.plain import random
from runs.sweeps.search.trials import PastTrial, SamplerQuestion, Suggestion
from trainyard.contract.base import BadDocument, WireStruct, convert, to_builtins
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import ordered
from trainyard.spec.sweeps.units import unit_of, value_at

if TYPE_CHECKING:
    from cmaes import CMA

GENERATION = "cma_generation"  # with a trial: which generation proposed it
STATE = "cma"  # with the sweep
SIGMA = 1 / 6


class CMAState(WireStruct):
    """The optimizer after ``generation`` generations. ``space`` is a digest of the space in whose units it is."""

    space: str
    generation: int
    sigma: float
    mean: list[float]
    sigma_path: list[float]
    covariance_path: list[float]
    covariance: list[float]  # the upper triangle, by rows


def covariance(question: SamplerQuestion) -> Suggestion:
    space = question.spec.space
    if len(space) == 1:
        return random(question)  # the method is for two dimensions and more
    paths = ordered(space)
    optimizer, generation, changed = _advanced(question, paths)
    # The library draws from a generator of its own: here that of the trial.
    optimizer.reseed_rng(question.sampler_seed())
    units = optimizer.ask()
    parameters = {path: value_at(space[path], float(unit)) for path, unit in zip(paths, units, strict=True)}
    return Suggestion(parameters, {GENERATION: generation}, {STATE: to_builtins(changed)} if changed else None)


def _advanced(question: SamplerQuestion, paths: Sequence[str]) -> tuple[CMA, int, CMAState | None]:
    """Return the optimizer after all generations that are complete, the number of the next, and its state where it
    differs from the one that was kept. Where the space was widened since, all trials are replayed in its units."""
    from cmaes import CMA  # control alone needs it, and only for such a sweep

    size = question.spec.sampler.population or 4 + math.floor(3 * math.log(len(paths)))
    optimizer = CMA(
        mean=np.full(len(paths), 0.5), sigma=SIGMA, bounds=np.tile([0.0, 1.0], (len(paths), 1)),
        seed=question.spec.seed, population_size=size,
    )  # fmt: skip
    digest = _digest(question, paths)
    kept = _kept(question, digest)
    if kept is not None:
        _restore(optimizer, kept)
    generation = first = kept.generation if kept is not None else 0
    by_generation: dict[int, list[PastTrial]] = {}
    for trial in question.trials:
        number = trial.attributes.get(GENERATION)
        if number is not None and number >= first:
            by_generation.setdefault(int(number), []).append(trial)
    while len(told := _solutions(question, paths, by_generation.get(generation, []))) >= size:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of generations in which all values are alike
            optimizer.tell(told[:size])
        generation += 1
    return optimizer, generation, _state_of(optimizer, digest) if generation > first else None


def _digest(question: SamplerQuestion, paths: Sequence[str]) -> str:
    dimensions = [path + question.spec.space[path].model_dump_json() for path in paths]
    return hashlib.sha256("\n".join(dimensions).encode()).hexdigest()[:16]


def _kept(question: SamplerQuestion, digest: str) -> CMAState | None:
    if STATE not in question.study_state:
        return None
    try:
        kept = convert(question.study_state[STATE], CMAState)
    except BadDocument:  # of another version
        return None
    return kept if kept.space == digest else None


def _state_of(optimizer: CMA, digest: str) -> CMAState:
    # The library makes the matrix symmetric like this before each use.
    matrix = (optimizer._C + optimizer._C.T) / 2
    return CMAState(
        space=digest,
        generation=optimizer.generation,
        sigma=float(optimizer._sigma),
        mean=optimizer.mean.tolist(),
        sigma_path=optimizer._p_sigma.tolist(),
        covariance_path=optimizer._pc.tolist(),
        covariance=matrix[np.triu_indices(len(matrix))].tolist(),
    )


def _restore(optimizer: CMA, kept: CMAState) -> None:
    upper = np.triu_indices(optimizer.dim)
    matrix = np.zeros((optimizer.dim, optimizer.dim))
    matrix[upper] = kept.covariance
    optimizer._C = matrix + np.triu(matrix, 1).T
    optimizer._sigma, optimizer._g = kept.sigma, kept.generation
    optimizer._mean = np.array(kept.mean)
    optimizer._p_sigma, optimizer._pc = np.array(kept.sigma_path), np.array(kept.covariance_path)


def _solutions(question: SamplerQuestion, paths: Sequence[str], trials: Sequence[PastTrial]) -> list[tuple[Any, float]]:
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

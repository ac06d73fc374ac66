"""Samplers that look at no trial before: random, quasi-random and grid. A trial's place alone decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec, nth_of_grid
from trainyard.spec.sweeps.space import point_at


@dataclass(frozen=True)
class PastTrial:
    """A trial that was proposed before. ``values`` are of its objectives; of a pruned one the last that it reported,
    at ``step``."""

    number: int
    state: TrialState
    parameters: Mapping[str, Any]
    values: tuple[float, ...] = ()
    step: int | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SamplerQuestion:
    """Question to a sampler: the parameters of trial ``number``, the ``place``-th that it proposes. ``trials`` are all
    before it, by number."""

    spec: SweepSpec
    number: int
    place: int
    trials: Sequence[PastTrial]
    study_state: JsonObject

    def rng(self) -> np.random.Generator:
        """Return randomness that belongs to this trial alone."""
        return np.random.default_rng([self.spec.seed, self.place])

    def sampler_seed(self) -> int:
        return int(np.random.SeedSequence([self.spec.seed, self.place]).generate_state(1)[0])


@dataclass(frozen=True)
class Suggestion:
    """The parameters, and what the sampler wants to find again: with the trial, and with the sweep."""

    parameters: JsonObject
    attributes: JsonObject = field(default_factory=dict)
    study_state: JsonObject | None = None


PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


def random(question: SamplerQuestion) -> Suggestion:
    space = question.spec.space
    return Suggestion(point_at(space, question.rng().random(len(space)).tolist()))


def first_members(question: SamplerQuestion) -> Suggestion | None:
    """Return a random point for each member of a population; None for the others, which come from those."""
    return random(question) if question.place < question.spec.sampler.size else None


def quasi_random(question: SamplerQuestion) -> Suggestion:
    """Points of a Halton sequence with permuted digits (Owen 2017): they fill the space evenly from the first on.
    Beyond 20 dimensions, whose points would lie on lines, the rest is random."""
    space, seed = question.spec.space, question.spec.seed
    units = question.rng().random(len(space)).tolist()
    for index, base in enumerate(PRIMES[: len(space)]):
        units[index] = _halton(question.place, base, seed)
    return Suggestion(point_at(space, units))


def _halton(index: int, base: int, seed: int) -> float:
    """Return the number ``index`` of the sequence of that base, each digit permuted by the seed."""
    rng = np.random.default_rng([seed, base])
    total, weight = 0.0, 1.0 / base
    while weight > 1e-12:
        total += int(rng.permutation(base)[index % base]) * weight
        index //= base
        weight /= base
    return total


def grid(question: SamplerQuestion) -> Suggestion | None:
    """Return the next point of the grid; None past its end."""
    parameters = nth_of_grid(question.spec.space, question.place)
    return None if parameters is None else Suggestion(parameters)

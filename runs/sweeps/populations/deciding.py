"""Exploit: which members end, and whose checkpoints their successors go on from.

Truncation selection (Jaderberg et al. 2017, section 4.1): a member among the worst is replaced by one that is drawn
from the best. It is asynchronous: a member is judged once enough others have been as far, and nobody waits.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from runs.sweeps.populations.lineage import Member, MemberVerdict, Successor
from trainyard.contract.base import JsonObject
from trainyard.spec.sweeps import Dimension, ordered
from trainyard.spec.sweeps.models import Sampler
from trainyard.spec.sweeps.population import CHANGEABLE_PATHS
from trainyard.spec.sweeps.space import point_at, unit_of, value_at

# Explore: other values of the hyperparameters that may change in mid-training (Jaderberg et al. 2017, section 4.2).


def changeable(space: "Space", parameters: Mapping[str, Any]) -> list[str]:
    """Return the paths that may change in a trial with these parameters."""
    return [path for path in ordered(space) if path in CHANGEABLE_PATHS and path in parameters]


def explored(settings: Sampler, space: "Space", parameters: Mapping[str, Any], rng: np.random.Generator) -> JsonObject:
    """Return the parameters with each that may change drawn anew, or moved: by a factor, or to the next choice."""
    found: JsonObject = dict(parameters)
    for path in changeable(space, parameters):
        # Both are always drawn, so that one parameter's fate does not shift the randomness of the next.
        is_drawn, unit, pick = rng.random() < settings.resample, float(rng.random()), float(rng.random())
        is_drawn |= settings.explore == "resample"
        one = space[path]
        found[path] = value_at(one, unit) if is_drawn else moved(one, found[path], settings.factors, pick)
    return found


def moved(dimension: Dimension, value: Any, factors: list[float], pick: float) -> Any:
    """Return the value times one of the factors, as the range has it; of a choice a neighbour."""
    if dimension.values is not None:
        if value not in dimension.values:
            return dimension.values[int(pick * len(dimension.values))]
        place = dimension.values.index(value) + (1 if pick >= 0.5 else -1)
        return dimension.values[min(max(place, 0), len(dimension.values) - 1)]
    return fitted(dimension, float(value) * factors[int(pick * len(factors))])


def fitted(dimension: Dimension, value: float) -> Any:
    low, high = dimension.bounds
    value = min(max(value, low), high)
    step = dimension.step or (1.0 if dimension.whole else None)
    if step is not None and not dimension.log:
        places = int((high - low) / step + 1e-9)
        value = low + min(round((value - low) / step), places) * step
    if dimension.whole:
        return min(max(round(value), int(low)), int(high))
    return value if step is None else float(f"{value:.12g}")


# PB2: explore by a Gaussian process bandit (Parker-Holder et al. 2020, algorithm 1).
#
# It learns from the intervals of all members how much the score rose with which hyperparameters, and proposes those
# with the highest upper confidence bound. Its kernel forgets: what was good early need not be good later (section
# 4.1).

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]

LEAST_INTERVALS = 4  # fewer say nothing: then it moves as plain population based training does
MOST_INTERVALS = 300  # the newest: the cost is that of a matrix of so many rows
CANDIDATES = 500
LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
FORGETTINGS = (0.0, 0.05, 0.15, 0.4)
NOISES = (1e-3, 1e-2, 1e-1)
C1, C2 = 0.2, 0.4  # of the bound's width, as in the authors' own code


@dataclass(frozen=True, slots=True)
class ScoreModel:
    """A Gaussian process over (hyperparameters, score before) and time, its kernel's parameters, and what it saw."""

    places: Array  # (n, d)
    times: Array  # (n,), in intervals
    gains: Array  # (n,), standardised
    length: float
    forgetting: float
    noise: float

    def covariance(self, places: Array, times: Array, others: Array, other_times: Array) -> Array:
        distances = ((places[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)
        apart = np.abs(times[:, None] - other_times[None, :])
        found: Array = np.exp(-0.5 * distances / self.length**2) * (1.0 - self.forgetting) ** (apart / 2)
        return found

    def factor(self) -> Array:
        own = self.covariance(self.places, self.times, self.places, self.times)
        found: Array = np.linalg.cholesky(own + (self.noise + 1e-8) * np.eye(len(own)))
        return found

    def likelihood(self) -> float:
        """Return the logarithm of the marginal likelihood, up to a constant."""
        factor = self.factor()
        solved = np.linalg.solve(factor, self.gains)
        return float(-0.5 * solved @ solved - np.log(np.diag(factor)).sum())

    def predict(self, places: Array, time: float) -> tuple[Array, Array]:
        """Return the mean and the deviation at places, at one time."""
        factor = self.factor()
        solved = np.linalg.solve(factor, self.covariance(self.places, self.times, places, np.full(len(places), time)))
        mean = solved.T @ np.linalg.solve(factor, self.gains)
        return mean, np.sqrt(np.maximum(1e-12, 1.0 - (solved**2).sum(axis=0)))


def bandit(
    settings: Sampler,
    space: "Space",
    members: Sequence[Member],
    parent: Member,
    step: int,
    made: Sequence[Successor],
    rng: np.random.Generator,
) -> JsonObject:
    """Return the parent's parameters, with the ranges that may change as the bandit proposes. Choices are moved.

    Successors that were made in the same round count as seen, with what is expected of them, so that the next one
    looks elsewhere.
    """
    found = explored(settings, space, parent.parameters, rng)
    ranges = [path for path in changeable(space, parent.parameters) if not space[path].is_choice]
    seen = list(intervals(members, space, ranges, settings.interval))[-MOST_INTERVALS:]
    if not ranges or len(seen) < LEAST_INTERVALS:
        return found
    model = fitted_model(seen)
    time = step / settings.interval + 1
    before = _standard(parent.scores.get(step, 0.0), [one[2] for one in seen])
    for one in made:
        if all(path in one.parameters for path in ranges):
            place = np.array([*(unit_of(space[path], one.parameters[path]) for path in ranges), before])
            model = _with_expected(model, place, time)
    candidates = np.column_stack([rng.random((CANDIDATES, len(ranges))), np.full(CANDIDATES, before)])
    mean, deviation = model.predict(candidates, time)
    width = math.sqrt(C1 + max(0.0, math.log(C2 * len(model.gains))))
    best = candidates[int(np.argmax(mean + width * deviation))]
    return {**found, **{path: value_at(space[path], float(unit)) for path, unit in zip(ranges, best, strict=False)}}


def intervals(
    members: Sequence[Member], space: "Space", ranges: Sequence[str], interval: int
) -> Iterator[tuple[float, list[float], float, float]]:
    """Yield for each interval of a member, in the order of steps: its time, where in the ranges it was, the score
    before, and the gain."""
    found = []
    for member in members:
        if not all(path in member.parameters for path in ranges):
            continue
        units = [unit_of(space[path], member.parameters[path]) for path in ranges]
        for step, score in member.scores.items():
            before = member.scores.get(step - interval)
            if before is not None and math.isfinite(before) and math.isfinite(score):
                found.append((step / interval, member.number, units, before, score - before))
    for time, _, units, before, gain in sorted(found, key=lambda one: (one[0], one[1])):
        yield time, units, before, gain


def fitted_model(seen: Sequence[tuple[float, list[float], float, float]]) -> ScoreModel:
    """Return the process whose kernel makes what was seen most likely."""
    befores = [one[2] for one in seen]
    places = np.array([[*units, _standard(before, befores)] for _, units, before, _ in seen])
    times = np.array([one[0] for one in seen])
    raw = np.array([one[3] for one in seen])
    gains = (raw - raw.mean()) / (raw.std() or 1.0)
    kernels = product(LENGTHS, FORGETTINGS, NOISES)
    return max((ScoreModel(places, times, gains, *kernel) for kernel in kernels), key=ScoreModel.likelihood)


def _standard(value: float, values: Sequence[float]) -> float:
    """Return the value in deviations from the mean, at the scale of the other inputs."""
    deviation = float(np.std(values)) or 1.0
    return float(np.clip((value - float(np.mean(values))) / deviation, -3.0, 3.0)) / 6.0


def _with_expected(model: ScoreModel, place: Array, time: float) -> ScoreModel:
    mean, _ = model.predict(place[None, :], time)
    gains = np.append(model.gains, mean[0])
    return replace(model, places=np.vstack([model.places, place]), times=np.append(model.times, time), gains=gains)


Space = Mapping[str, Dimension]


@dataclass(frozen=True, slots=True)
class Population:
    """Population in one round of decisions: the members as they are, and the settings of their sweep. Behind
    ``last_step`` nobody goes on."""

    settings: Sampler
    space: Space
    members: Sequence[Member]
    seed: int
    last_step: int

    def rng(self, member: Member, step: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, member.number, step])


def verdicts(population: Population, room: int) -> list[MemberVerdict]:
    """Return what is decided now, at most ``room`` successors among it. The same members and seed give the same.

    A member that cannot be judged yet has no verdict: too few others have been as far, or no checkpoint of a good one
    is there yet.
    """
    found: list[MemberVerdict] = []
    made: list[Successor] = []
    for member in sorted(population.members, key=lambda one: one.number):
        verdict = _verdict(population, member, made)
        if verdict is None:
            continue
        if verdict.successor is not None:
            if len(made) >= room:
                continue
            made.append(verdict.successor)
        found.append(verdict)
    return found


def _verdict(population: Population, member: Member, made: Sequence[Successor]) -> MemberVerdict | None:
    if member.has_failed:
        return _replaced(population, member, made)
    judged = max(member.judged, member.start)
    step = max((one for one in member.scores if judged < one < population.last_step), default=None)
    if not member.is_training or step is None:
        return None
    peers = at_boundary(population.members, step)
    if len(peers) < max(2, math.ceil(population.settings.size / 2)):  # too few have been as far for a comparison
        return None
    best, worst = quantiles(peers, population.settings.quantile)
    if member not in worst:
        return MemberVerdict(member.number, step)
    successor = _successor(population, best, made, step=step, rng=population.rng(member, step))
    return None if successor is None else MemberVerdict(member.number, step, successor)


def _replaced(population: Population, member: Member, made: Sequence[Successor]) -> MemberVerdict:
    """Replace a member that has failed for good by one of the best of the last boundary that any member has reached."""
    others = [one for one in population.members if one.number != member.number and not one.has_failed]
    for step in sorted({step for one in others for step in one.scores if step < population.last_step}, reverse=True):
        best, _ = quantiles(at_boundary(others, step), population.settings.quantile)
        if successor := _successor(population, best, made, step=step, rng=population.rng(member, step)):
            return MemberVerdict(member.number, step, successor)
    space = population.space
    parameters = point_at(space, population.rng(member, 0).random(len(space)).tolist())
    return MemberVerdict(member.number, member.judged, Successor(None, None, parameters))


def at_boundary(members: Sequence[Member], step: int) -> list[Member]:
    """Return the members that have been as far, the best first; of equal ones the older."""
    peers = [one for one in members if step in one.scores and one.start < step]
    return sorted(peers, key=lambda one: (-one.scores[step], one.number))


def quantiles(ranked: Sequence[Member], quantile: float) -> tuple[Sequence[Member], Sequence[Member]]:
    """Return the best and the worst of members in their order; never one in both."""
    count = min(max(1, math.ceil(len(ranked) * quantile)), len(ranked) // 2)
    return (ranked, ()) if len(ranked) == 1 else (ranked[:count], ranked[len(ranked) - count :])


def _successor(
    population: Population, best: Sequence[Member], made: Sequence[Successor], *, step: int, rng: np.random.Generator
) -> Successor | None:
    """Return one that goes on from one of the best; None while none of them has a checkpoint to go on from."""
    # Of the checkpoint of the boundary, where it is kept, else of the next.
    kept = ((one, min((at for at in one.checkpoints if at >= step), default=None)) for one in best)
    sources = [(one, at) for one, at in kept if at is not None]
    if not sources or not math.isfinite(sources[0][0].scores[step]):
        return None
    settings, space = population.settings, population.space
    parent, at = sources[int(rng.integers(len(sources)))]
    if settings.explore == "pb2":
        return Successor(parent.number, at, bandit(settings, space, population.members, parent, at, made, rng))
    return Successor(parent.number, at, explored(settings, space, parent.parameters, rng))

"""PB2: explore by a Gaussian process bandit (Parker-Holder et al. 2020, algorithm 1).

It learns from the intervals of all members how much the score rose with which hyperparameters, and proposes those with
the highest upper confidence bound. Its kernel forgets: what was good early need not be good later (section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from runs.populations.exploring import changeable, explored
from runs.populations.members import Member, Successor
from trainyard.contract.base import JsonObject
from trainyard.spec.sweeps import Dimension
from trainyard.spec.sweeps.models import Sampler
from trainyard.spec.sweeps.units import unit_of, value_at

Space = Mapping[str, Dimension]
Array = np.ndarray[Any, np.dtype[np.floating[Any]]]

LEAST_INTERVALS = 4  # fewer say nothing: then it moves as plain population based training does
MOST_INTERVALS = 300  # the newest: the cost is that of a matrix of so many rows
CANDIDATES = 500
LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
FORGETTINGS = (0.0, 0.05, 0.15, 0.4)
NOISES = (1e-3, 1e-2, 1e-1)
C1, C2 = 0.2, 0.4  # of the bound's width, as in the authors' own code


@dataclass(frozen=True, slots=True)
class Model:
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
        cross = self.covariance(self.places, self.times, places, np.full(len(places), time))
        solved = np.linalg.solve(factor, cross)
        mean = solved.T @ np.linalg.solve(factor, self.gains)
        variance = np.maximum(1e-12, 1.0 - (solved**2).sum(axis=0))
        return mean, np.sqrt(variance)


def bandit(
    settings: Sampler,
    space: Space,
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
    members: Sequence[Member], space: Space, ranges: Sequence[str], interval: int
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


def fitted_model(seen: Sequence[tuple[float, list[float], float, float]]) -> Model:
    """Return the process whose kernel makes what was seen most likely."""
    befores = [one[2] for one in seen]
    places = np.array([[*units, _standard(before, befores)] for _, units, before, _ in seen])
    times = np.array([one[0] for one in seen])
    raw = np.array([one[3] for one in seen])
    gains = (raw - raw.mean()) / (raw.std() or 1.0)
    models = [
        Model(places, times, gains, length, forgetting, noise)
        for length in LENGTHS
        for forgetting in FORGETTINGS
        for noise in NOISES
    ]
    return max(models, key=Model.likelihood)


def _standard(value: float, values: Sequence[float]) -> float:
    """Return the value in deviations from the mean, at the scale of the other inputs."""
    deviation = float(np.std(values)) or 1.0
    return float(np.clip((value - float(np.mean(values))) / deviation, -3.0, 3.0)) / 6.0


def _with_expected(model: Model, place: Array, time: float) -> Model:
    mean, _ = model.predict(place[None, :], time)
    return Model(
        np.vstack([model.places, place]),
        np.append(model.times, time),
        np.append(model.gains, mean[0]),
        model.length,
        model.forgetting,
        model.noise,
    )

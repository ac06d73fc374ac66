"""Exploit: which members end, and whose checkpoints their successors go on from.

Truncation selection (Jaderberg et al. 2017, section 4.1): a member among the worst is replaced by one that is drawn
from the best. It is asynchronous: a member is judged once enough others have been as far, and nobody waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runs.populations.bandits import bandit
from runs.populations.exploring import anew, explored
from runs.populations.members import Member, Successor, Verdict
from trainyard.spec.sweeps import Dimension
from trainyard.spec.sweeps.models import Sampler

Space = Mapping[str, Dimension]


@dataclass(frozen=True, slots=True)
class Population:
    """What one round of decisions is about: the members as they are, and the settings of their sweep. Behind
    ``last_step`` nobody goes on."""

    settings: Sampler
    space: Space
    members: Sequence[Member]
    seed: int
    last_step: int

    def rng(self, member: Member, step: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, member.number, step])


def verdicts(population: Population, room: int) -> list[Verdict]:
    """Return what is decided now, at most ``room`` successors among it. The same members and seed give the same.

    A member that cannot be judged yet has no verdict: too few others have been as far, or no checkpoint of a good one
    is there yet.
    """
    found: list[Verdict] = []
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


def _verdict(population: Population, member: Member, made: Sequence[Successor]) -> Verdict | None:
    if member.has_failed:
        return _replaced(population, member, made)
    step = newest_boundary(member, population.last_step)
    if not member.is_training or step is None:
        return None
    peers = at_boundary(population.members, step)
    if len(peers) < quorum(population.settings.size):
        return None
    best, worst = quantiles(peers, population.settings.quantile)
    if member not in worst:
        return Verdict(member.number, step)
    successor = _successor(population, best, made, step=step, rng=population.rng(member, step))
    return None if successor is None else Verdict(member.number, step, successor)


def _replaced(population: Population, member: Member, made: Sequence[Successor]) -> Verdict:
    """One that has failed for good is replaced by one of the best of the last boundary that anybody has reached."""
    others = [one for one in population.members if one.number != member.number and not one.has_failed]
    steps = sorted({step for one in others for step in one.scores if step < population.last_step}, reverse=True)
    for step in steps:
        best, _ = quantiles(at_boundary(others, step), population.settings.quantile)
        rng = population.rng(member, step)
        if successor := _successor(population, best, made, step=step, rng=rng):
            return Verdict(member.number, step, successor)
    parameters = anew(population.space, population.rng(member, 0))
    return Verdict(member.number, member.judged, Successor(None, None, parameters))


def newest_boundary(member: Member, last_step: int) -> int | None:
    """Return the newest boundary at which the member was not judged yet."""
    steps = [step for step in member.scores if max(member.judged, member.start) < step < last_step]
    return max(steps, default=None)


def at_boundary(members: Sequence[Member], step: int) -> list[Member]:
    """Return the members that have been as far, the best first; of equal ones the older."""
    peers = [one for one in members if step in one.scores and one.start < step]
    return sorted(peers, key=lambda one: (-one.scores[step], one.number))


def quorum(size: int) -> int:
    """Return how many must have been as far for a comparison."""
    return max(2, math.ceil(size / 2))


def quantiles(ranked: Sequence[Member], quantile: float) -> tuple[Sequence[Member], Sequence[Member]]:
    """Return the best and the worst of members in their order; never one in both."""
    count = min(max(1, math.ceil(len(ranked) * quantile)), len(ranked) // 2)
    if len(ranked) == 1:
        return ranked, ()
    return ranked[:count], ranked[len(ranked) - count :]


def _successor(
    population: Population,
    best: Sequence[Member],
    made: Sequence[Successor],
    *,
    step: int,
    rng: np.random.Generator,
) -> Successor | None:
    """Return one that goes on from one of the best; None while none of them has a checkpoint to go on from."""
    sources = [(one, found) for one in best if (found := source_step(one, step)) is not None]
    if not sources or not math.isfinite(sources[0][0].scores[step]):
        return None
    settings, space = population.settings, population.space
    parent, at = sources[int(rng.integers(len(sources)))]
    if settings.explore == "pb2":
        parameters = bandit(settings, space, population.members, parent, at, made, rng)
    else:
        parameters = explored(settings, space, parent.parameters, rng)
    return Successor(parent.number, at, parameters)


def source_step(parent: Member, step: int) -> int | None:
    """Return the step of the checkpoint to go on from: that of the boundary, where it is kept, else the next."""
    return min((one for one in parent.checkpoints if one >= step), default=None)

"""Slots that trials held over time, and savings of stopping trials early."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from runs.sweeps.analysis.best import PRUNED, TrialPoint

SLACK_S = 1.0  # an attempt's end is recorded a moment after its slots were free


class Occupation(NamedTuple):
    """A trial's time on a node. Times are Unix seconds."""

    number: int
    node: str
    num_slots: int
    start: float
    end: float


class TrialBar(NamedTuple):
    """A trial in one lane of the timeline."""

    number: int
    lane: int
    start: float
    end: float


class Timeline(NamedTuple):
    """``lanes`` are named after their node, one for each slot that was held at once."""

    lanes: list[str]
    bars: list[TrialBar]


class Saved(NamedTuple):
    """Savings of pruning, in rank-seconds, beside what all trials took. ``num_unknown`` pruned trials made no step
    whose time could be measured."""

    saved_rank_seconds: float
    taken_rank_seconds: float
    num_pruned: int
    num_unknown: int

    @property
    def share(self) -> float | None:
        """The saved part of what the sweep would have taken without pruning; None where nothing was taken."""
        total = self.saved_rank_seconds + self.taken_rank_seconds
        return self.saved_rank_seconds / total if total > 0 else None


def timeline(occupations: Iterable[Occupation]) -> Timeline:
    """Give each trial the first lanes of its node that are free. Which of a node's slots it was is not kept."""
    free_from: dict[str, list[float]] = {}
    placed: list[tuple[str, int, Occupation]] = []
    for one in sorted(occupations, key=lambda one: (one.start, one.number)):
        lanes = free_from.setdefault(one.node, [])
        free = [at for at, end in enumerate(lanes) if end <= one.start + SLACK_S][: one.num_slots]
        while len(free) < one.num_slots:
            lanes.append(one.start)
            free.append(len(lanes) - 1)
        for at in free:
            lanes[at] = one.end
            placed.append((one.node, at, one))
    names = [(node, at) for node in sorted(free_from) for at in range(len(free_from[node]))]
    lane_of = {name: lane for lane, name in enumerate(names)}
    bars = [TrialBar(one.number, lane_of[node, at], one.start, one.end) for node, at, one in placed]
    return Timeline([f"{node} · {at + 1}" for node, at in names], bars)


def saved_by_pruning(trials: Sequence[TrialPoint], steps_of: Mapping[int, int]) -> Saved:
    """``steps_of`` are the steps that each trial would have run, by its number. What a run takes until its first step
    is spent either way."""
    pruned = [one for one in trials if one.state == PRUNED]
    saved, num_unknown = 0.0, 0
    for one in pruned:
        wanted = steps_of.get(one.number)
        if wanted is None or one.step_cost is None:
            num_unknown += 1
        else:
            saved += max(0, wanted - (one.steps or 0)) * one.step_cost
    return Saved(saved, sum(one.rank_seconds for one in trials), len(pruned), num_unknown)

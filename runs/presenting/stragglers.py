"""Which ranks slow the others down, by what each rank measured of its own steps. Pure.

A waiting rank looks as slow as the rank it waits for: a step takes as long for both. So a rank is judged by the time
that it computes, and its cost for the others by how much longer than it they wait in collectives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median_low
from typing import NamedTuple

from trainyard.formats.words import listed

BUSY = ("data", "forward", "backward", "optimizer")
WAITING = "communication"
SLOWER = 1.2  # times as long as others
LEAST_WAIT = 0.1  # of a step
MAX_NAMED = 4

Phases = Mapping[str, float]  # seconds of a step by phase


class Stragglers(NamedTuple):
    """``times``: how many times as long as the others they compute. ``wait``: the share of each step that the others
    wait for them."""

    ranks: tuple[int, ...]
    times: float
    wait: float


def stragglers(phases: Mapping[int, Phases]) -> Stragglers | None:
    """Return the stragglers among the ranks whose phases these are; None where there are none, or most ranks are as
    slow."""
    if len(phases) < 2:
        return None
    busy = {rank: sum(one.get(name, 0.0) for name in BUSY) for rank, one in phases.items()}
    usual = median_low(busy.values())
    slow = tuple(sorted(rank for rank, seconds in busy.items() if seconds > SLOWER * usual))
    if not slow or usual <= 0 or len(slow) > len(busy) / 2:
        return None
    shares = {rank: _waiting(one) for rank, one in phases.items()}
    others = [rank for rank in busy if rank not in slow]
    wait = fmean(shares[rank] for rank in others) - min(shares[rank] for rank in slow)
    if wait < LEAST_WAIT:
        return None
    return Stragglers(slow, fmean(busy[rank] for rank in slow) / fmean(busy[rank] for rank in others), wait)


def sentence(found: Stragglers, nodes: Mapping[int, str], *, num_ranks: int) -> str:
    """Return the stragglers as a sentence; ``nodes`` are the nodes' names by rank."""
    several = len(found.ranks) > 1
    others = "the other" if num_ranks - len(found.ranks) == 1 else "the others"
    waits = "it waits" if others == "the other" else "they wait"
    return (
        f"{_who(found.ranks, nodes)} compute{'' if several else 's'} {found.times:.1f} times as long as {others}: "
        f"{waits} {100 * found.wait:.0f} % of each step for {'them' if several else 'it'}."
    )


def _waiting(phases: Phases) -> float:
    """Return the share of a rank's steps that it waits in collectives."""
    total = sum(phases.get(name, 0.0) for name in (*BUSY, WAITING))
    return phases.get(WAITING, 0.0) / total if total else 0.0


def _who(ranks: Sequence[int], nodes: Mapping[int, str]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]} on {nodes.get(ranks[0], 'an unknown node')}"
    where = sorted({nodes[rank] for rank in ranks if rank in nodes})
    named = listed([str(rank) for rank in ranks], at_most=MAX_NAMED)
    return f"Ranks {named} on {where[0] if len(where) == 1 else f'{len(where)} nodes'}"

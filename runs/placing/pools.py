"""How many machines that stay between runs a cluster is to have: pure functions on plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from runs.placing.fitting import Placed, Request, Room
from runs.placing.scheduling import place
from trainyard.formats.words import counted

FIRST_PAUSE_S, LONGEST_PAUSE_S = 15.0, 600.0


class PoolRules(NamedTuple):
    least: int
    most: int
    idle_s: float  # after which a machine without a run is given back


class PoolDecision(NamedTuple):
    num_asked: int  # machines to ask for now
    given_back: tuple[str, ...]  # nodes
    sentence: str


def pause_s(num_failed: int, since_s: float) -> float:
    """Return the seconds until it is asked again after so many asks in a row that failed; 0 or less: now."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(num_failed - 1, 10)) - since_s if num_failed else 0.0


def decide(
    rules: PoolRules,
    requests: Sequence[Request],
    rooms: Sequence[Room],
    offers: Sequence[Room],
    idle_s: Mapping[str, float],
    *,
    num_joining: int = 0,
    paused_s: float = 0.0,
    problem: str = "",
) -> PoolDecision:
    """Return what to ask for and to give back.

    ``requests`` may start now and come in their order; ``rooms`` are the machines that have joined, ``idle_s`` of those
    without a run, ``offers`` those that may still come, ``num_joining`` of which were asked for. It asks for what
    placing would use of the offers: none comes for a run that could not have it. Elastic runs bring their least number.
    """
    could = [replace(one, is_cold=True) for one in offers[: max(0, rules.most - len(rooms))]]  # behind those there
    answers = place("", [replace(one, node_counts=()) for one in requests], [*rooms, *could])
    parts = [one.parts for one in answers if isinstance(one, Placed)]
    used, new = {part.node for one in parts for part in one}, {room.node for room in could}
    waiting = [one for one in parts if any(part.node in new for part in one)]
    missing = max(len(used & new), min(rules.least, rules.most) - len(rooms)) - num_joining
    spare = sorted(idle_s.keys() - used, key=lambda node: (-idle_s[node], node))
    kept = spare[: max(0, len(rooms) - min(rules.least, rules.most))]
    given_back = tuple(node for node in kept if idle_s[node] >= rules.idle_s)
    slots = counted(sum(len(part.slots) for one in waiting for part in one), "slot")
    runs = f"{counted(len(waiting), 'run')} wait{'s' if len(waiting) == 1 else ''} for {slots}"
    words = (
        f"{len(rooms)} of at most {counted(rules.most, 'node')}{f', {num_joining} on the way' * bool(num_joining)}: "
    )
    words += runs if waiting else f"{len(spare)} idle" if spare else "no run waits for more"
    if missing > 0 and paused_s > 0:
        words += f"; the last ask failed, the next is in {paused_s:.0f} s: {problem.rstrip('.')}"
    return PoolDecision(max(0, missing) if paused_s <= 0 else 0, given_back, f"{words}.")

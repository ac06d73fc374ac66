"""The reservation of the run that waits for room first, by which others may pass it: EASY backfill. Pure.

Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995, over nodes with several slots in place of a pool.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from runs.placing.fitting import Free, Placed, Request, Room, is_usable
from trainyard.grouping import grouped


@dataclass
class Reservation:
    """The run starts ``in_s`` seconds from now. ``spare``: slots of its nodes that it leaves to others then."""

    in_s: float
    spare: dict[str, int]

    def is_over_before(self, request: Request) -> bool:
        return request.lasts_s is not None and request.lasts_s <= self.in_s

    def left(self, free: Free) -> Free:
        """Return the free slots that a run may hold for any time without delaying it."""
        return {node: slots[: self.spare[node]] if node in self.spare else slots for node, slots in free.items()}

    def take(self, placed: Placed) -> None:
        """Count what a run that goes on beyond it was given of the spare slots."""
        for part in placed.parts:
            if part.node in self.spare:
                self.spare[part.node] -= len(part.slots)


def reserve(
    request: Request, rooms: Sequence[Room], free: Free, started: Iterable[tuple[float, str]]
) -> Reservation | None:
    """Return when enough slots are free for the request; None where nobody can say. ``started``: seconds and node of
    each slot that was given away in this round."""
    able = [room for room in rooms if is_usable(room, request)]
    kinds = {one.node: number for number, area in enumerate(request.areas(able)) for one in area}
    ends = [(end, room.node) for room in rooms if room.node in kinds for end in room.ends.values()]
    ends += [(end, node) for end, node in started if node in kinds]
    counts = {node: len(free[node]) for node in kinds}
    # Nodes with enough free slots, by kind and area.
    wide = defaultdict(list, grouped((kinds[node], node) for node in kinds if counts[node] >= request.slots_per_node))
    in_s, chosen = inf, list[str]()
    for end, node in sorted(ends):
        if end > in_s:
            break
        counts[node] += 1
        if not chosen and counts[node] == request.slots_per_node:
            wide[kinds[node]].append(node)
            if len(wide[kinds[node]]) >= request.num_nodes:
                in_s, chosen = end, wide[kinds[node]][-request.num_nodes :]
    return Reservation(in_s, {node: counts[node] - request.slots_per_node for node in chosen}) if chosen else None

"""When each waiting run is expected to start: the queue is played forward in virtual time. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from random import Random
from typing import NamedTuple

from runs.placing.fitting import Request, Room, is_usable, kinds_of
from runs.placing.spans import Span

PLAYS = 9  # of which eight of ten lie between the first and the last
NEXT = 100  # runs behind the first that waits, which may pass it
EXACT = 50  # runs that wait first, which others may pass; behind them each is taken to wait for those before it


class Hold(NamedTuple):
    """Slots of a node that a run holds."""

    run: str
    node: str
    slots: int


def starts(
    requests: Sequence[Request], rooms: Sequence[Room], holds: Sequence[Hold], lasts: Mapping[str, Span]
) -> dict[str, Span]:
    """Return in how many seconds each of the requests, which come in their order, is expected to start: the median of
    PLAYS, and the first and last of them as the ends of a band. ``lasts``: how long a run goes on, a live one from now.
    Those of which nobody can say it are left out.

    Each play draws the times of all runs: with the median of each one the sum of many would be far too small, since
    most runs are short and few are very long.
    """
    plays = [_Play(rooms, holds, lasts, Random(seed)).played(requests) for seed in range(PLAYS)]
    found = {}
    for request in requests:
        times = sorted(play[request.run] for play in plays if request.run in play)
        if len(times) == PLAYS:
            found[request.run] = Span(times[0], times[PLAYS // 2], times[-1])
    return found


class _Play:
    """One way in which it may go."""

    def __init__(self, rooms: Sequence[Room], holds: Sequence[Hold], lasts: Mapping[str, Span], random: Random) -> None:
        self._lasts = {run: lasts[run].drawn(random) for run in sorted(lasts)}
        self._rooms = {room.node: room for room in rooms}
        self._free = {room.node: len(room.free) for room in rooms}
        self._ends = [(self._lasts[one.run], one.node, one.slots) for one in holds if one.run in self._lasts]
        heapify(self._ends)
        self._now = 0.0
        self._nodes: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))  # by kind and free slots
        for node, free in self._free.items():
            self._nodes[self._rooms[node].accelerator][free].add(node)

    def played(self, requests: Sequence[Request]) -> dict[str, float]:
        found: dict[str, float] = {}
        for place, request in enumerate(requests):
            if request.run in found:
                continue
            while not (nodes := self._fitting(request)):
                if not self._ends:
                    return found
                end, node, slots = heappop(self._ends)
                self._now = max(end, 0.0)
                self._change(node, slots)
                if place < EXACT:
                    others = requests[place + 1 : place + 1 + NEXT]
                    found |= dict.fromkeys(self._passing(others, found, self._reserved(request)), self._now)
            self._take(request, nodes)
            found[request.run] = self._now
        return found

    def _passing(self, requests: Sequence[Request], found: Mapping[str, float], end: float) -> Iterator[str]:
        for other in requests:
            lasts = self._lasts.get(other.run)
            if other.run in found or lasts is None or self._now + lasts > end:
                continue
            if nodes := self._fitting(other):
                self._take(other, nodes)
                yield other.run

    def _reserved(self, request: Request) -> float:
        """Return when the request fits, if nobody else starts meanwhile."""
        counts, per_node = dict(self._free), request.slots_per_node
        missing = request.num_nodes - sum(number >= per_node for number in counts.values())
        if missing <= 0:
            return self._now
        for end, node, slots in sorted(self._ends):
            missing -= counts[node] < per_node <= counts[node] + slots
            counts[node] += slots
            if missing <= 0:
                return end
        return float("inf")

    def _fitting(self, request: Request) -> list[str]:
        for kind in kinds_of(request):
            nodes = self._nodes[kind]
            sizes = sorted(size for size in nodes if size >= request.slots_per_node)
            usable = (node for size in sizes for node in nodes[size] if is_usable(self._rooms[node], request))
            if len(chosen := list(islice(usable, request.num_nodes))) == request.num_nodes:
                return chosen
        return []

    def _take(self, request: Request, nodes: Sequence[str]) -> None:
        lasts = self._lasts.get(request.run)
        for node in nodes:
            self._change(node, -request.slots_per_node)
            if lasts is not None:
                heappush(self._ends, (self._now + lasts, node, request.slots_per_node))

    def _change(self, node: str, slots: int) -> None:
        sizes = self._nodes[self._rooms[node].accelerator]
        sizes[self._free[node]].discard(node)
        self._free[node] += slots
        sizes[self._free[node]].add(node)

"""When each waiting run is expected to start: the queue is played forward in virtual time. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from random import Random
from typing import NamedTuple

from runs.placing.fitting import Request, Room, is_usable, kinds_of
from runs.placing.spans import Span

PLAYS = 9  # of which eight of ten lie between the first and the last


class Hold(NamedTuple):
    """Slots of a node that a run holds."""

    run: str
    node: str
    slots: int


def starts(
    requests: Sequence[Request], rooms: Sequence[Room], holds: Sequence[Hold], lasts: Mapping[str, Span]
) -> dict[str, Span]:
    """Return in how many seconds each of the requests, which come in their order, is expected to start, where somebody
    can say: median, first and last of PLAYS. ``lasts``: how long a run goes on, a live one from now. Each play draws
    the times of all runs, since the sum of many medians is far too small: most runs are short, and few very long."""
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
        self._now, self._num_free = 0.0, sum(self._free.values())
        self._usable: dict[object, list[str]] = {}  # nodes, by what a request asks for
        self._nodes: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))  # by kind and free slots
        for node, free in self._free.items():
            self._nodes[self._rooms[node].accelerator][free].add(node)

    def played(self, requests: Sequence[Request]) -> dict[str, float]:
        found: dict[str, float] = {}
        left = {one.run: one for one in requests}
        while left:
            first = next(iter(left.values()))
            if not (nodes := self._fitting(first)):
                end = self._reserved(first)
                while not nodes:
                    for run in self._passing(left.values(), end):
                        found[left.pop(run).run] = self._now
                    if not self._ends:
                        return found
                    self._now, node, slots = heappop(self._ends)
                    self._change(node, slots)
                    nodes = self._fitting(first)
            self._take(first, nodes)
            found[left.pop(first.run).run] = self._now
        return found

    def _passing(self, requests: Iterable[Request], end: float) -> list[str]:
        """Start those that fit now, and are over by ``end``, when the first of the requests starts."""
        started: list[str] = []
        full: set[object] = set()  # shapes for which there is nothing
        for other in requests:
            if not self._num_free:
                break
            lasts = self._lasts.get(other.run)
            if other.shape in full or lasts is None or self._now + lasts > end:
                continue
            if nodes := self._fitting(other):
                self._take(other, nodes)
                started.append(other.run)
            else:
                full.add(other.shape)
        return started

    def _reserved(self, request: Request) -> float:
        """Return when the request fits, if nobody else starts meanwhile. Where nobody can say, nobody passes it."""
        counts, per_node = {node: self._free[node] for node in self._usable_for(request)}, request.slots_per_node
        wide = Counter(self._rooms[node].accelerator for node, number in counts.items() if number >= per_node)
        for end, node, slots in sorted(one for one in self._ends if one[1] in counts):
            kind = self._rooms[node].accelerator  # a run has nodes of one
            wide[kind] += counts[node] < per_node <= counts[node] + slots
            counts[node] += slots
            if wide[kind] >= request.num_nodes:
                return end
        return float("-inf")

    def _usable_for(self, request: Request) -> list[str]:
        key = request.shape, request.excluded
        if key not in self._usable:
            kinds = kinds_of(request)
            able = (one for one in self._rooms.values() if one.accelerator in kinds and is_usable(one, request))
            self._usable[key] = [room.node for room in able]
        return self._usable[key]

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
        self._num_free += slots
        sizes[self._free[node]].add(node)

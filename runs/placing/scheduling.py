"""Placement of queued runs: a pure function on plain values, one cluster at a time.

The first run that waits for room has a reservation of the slots that come free first: one behind it starts only where
that does not delay it, so that no gang starves. Where nobody can say when slots come free, nobody passes. A run that no
set of the cluster's registered nodes could ever hold is stepped over. A run gets all its nodes at once or none, all of
one accelerator kind, so that the fewest nodes are partly used, and where it leaves the least unused. An elastic run
starts on its least number of nodes; what nobody waits for then is given to such runs, in their order.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from runs.placing.fitting import Answer, Free, Placed, Request, Room, Waiting, fit, fit_any, is_usable, take_share
from runs.placing.reasons import reason, turn, why_never, why_not_without
from runs.values.status import Reason
from trainyard.grouping import grouped


def place(cluster: str, requests: Sequence[Request], rooms: Sequence[Room]) -> list[Answer]:
    """Return a placement or the reason to wait for each request, which come in their order. ``cluster`` is its name."""
    board = Board(rooms)
    unfit: dict[tuple[object, ...], Reason | None] = {}  # why none of a shape can ever start: there are few shapes
    answers: list[Answer] = []
    num_ahead = 0
    for request in requests:
        if (placed := board.start(request)) is not None:
            answers.append(placed)
            continue
        if request.shape not in unfit:
            unfit[request.shape] = why_never(cluster, request, rooms)
        why = unfit[request.shape] or why_not_without(cluster, request, rooms)
        has_claim = why is None
        if why is None:
            first = board.first
            why = turn(cluster, num_ahead, first) if first else reason(cluster, request, rooms, board.free)
            board.hold_for(request)
            num_ahead += 1
        answers.append(Waiting(request.run, *why, has_claim))
    return answers if board.first else _widened(requests, rooms, board.free, answers)


# The reservation of the run that waits for room first, by which others may pass it: EASY backfill.
# Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995, over nodes with several slots in place of a pool.


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


class Board:
    """The free slots of a round, with what is given away and what is reserved."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        self.free: Free = {room.node: room.free for room in rooms}
        self.first: Request | None = None  # that waits for room
        self.reservation: Reservation | None = None
        self._rooms = rooms
        self._divided = {room.node: dict(room.divided) for room in rooms}
        self._started: list[tuple[float, str]] = []
        self._full: set[object] = set()  # shapes for which nothing is left: the round only takes

    def start(self, request: Request) -> Placed | None:
        """Give the request what it asks for; None where that is not there, or would delay the first that waits."""
        if self.first is None:
            return self._taken(request, fit_any(request, self._rooms, self.free, self._divided))
        if self.reservation is None:
            return None
        is_over = self.reservation.is_over_before(request)
        key = (request.shape, request.num_shares, request.excluded, is_over)
        if key in self._full or not (is_over or request.num_shares == 1):
            return None
        free = self.free if is_over else self.reservation.left(self.free)
        placed = fit_any(request, self._rooms, free, self._divided)
        if placed is None:
            self._full.add(key)
        elif not is_over:
            self.reservation.take(placed)
        return self._taken(request, placed)

    def hold_for(self, request: Request) -> None:
        """The request waits for room: if it is the first, the rest may not delay it."""
        if self.first is None:
            self.first = request
            self.reservation = reserve(request, self._rooms, self.free, self._started)

    def _taken(self, request: Request, placed: Placed | None) -> Placed | None:
        for part in placed.parts if placed else ():
            self.free[part.node] = tuple(slot for slot in self.free[part.node] if slot not in part.slots)
            if part.num_shares > 1:
                take_share(self._divided[part.node], part)
            elif request.lasts_s is not None:
                self._started += [(request.lasts_s, part.node)] * len(part.slots)
        return placed


def _widened(requests: Sequence[Request], rooms: Sequence[Room], free: Free, answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers with what is left in ``free`` given to elastic runs, in their order."""
    elastic = {request.run: request for request in requests if request.node_counts and request.num_shares == 1}
    return [
        _wider(elastic[answer.run], rooms, free, answer)
        if isinstance(answer, Placed) and answer.run in elastic
        else answer
        for answer in answers
    ]


def _wider(request: Request, rooms: Sequence[Room], free: Free, least: Placed) -> Placed:
    own = {part.node: part.slots for part in least.parts}
    with_own = {node: tuple(sorted((*slots, *own.get(node, ())))) for node, slots in free.items()}
    for number in reversed(request.node_counts):
        placed = fit(replace(request, num_nodes=number, accelerator=least.accelerator), rooms, with_own)
        if placed is not None:
            for node, slots in with_own.items():
                taken = {slot for part in placed.parts if part.node == node for slot in part.slots}
                free[node] = tuple(slot for slot in slots if slot not in taken)
            return placed
    return least

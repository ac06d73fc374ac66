"""Placement of queued runs: a pure function on plain values, one cluster at a time.

The first run that waits for room has a reservation of the slots that come free first: one behind it starts only where
that does not delay it, so that no gang starves. Where nobody can say when slots come free, nobody passes. A run that no
set of the cluster's registered nodes could ever hold is stepped over. A run gets all its nodes at once or none, all of
one accelerator kind, so that the fewest nodes are partly used, and where it leaves the least unused. An elastic run
starts on its least number of nodes; what nobody waits for then is given to such runs, in their order.
"""

from collections.abc import Sequence
from dataclasses import replace

from runs.placing.backfill import Reservation, reserve
from runs.placing.fitting import Answer, Free, Placed, Request, Room, Waiting, fit, fit_any, take_share
from runs.placing.reasons import reason, turn, why_never, why_not_without


def place(cluster: str, requests: Sequence[Request], rooms: Sequence[Room]) -> list[Answer]:
    """Return a placement or the reason to wait for each request, which come in their order. ``cluster`` is its name."""
    board = Board(rooms)
    unfit: dict[tuple[object, ...], str] = {}  # why none of a shape can ever start, or "": a long queue has few shapes
    answers: list[Answer] = []
    num_ahead = 0
    for request in requests:
        if (placed := board.start(request)) is not None:
            answers.append(placed)
            continue
        if request.shape not in unfit:
            unfit[request.shape] = why_never(cluster, request, rooms)
        sentence = unfit[request.shape] or why_not_without(cluster, request, rooms)
        if has_claim := not sentence:
            first = board.first
            sentence = turn(cluster, num_ahead, first) if first else reason(cluster, request, rooms, board.free)
            board.hold_for(request)
            num_ahead += 1
        answers.append(Waiting(request.run, sentence, has_claim))
    return answers if board.first else _widened(requests, rooms, board.free, answers)


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

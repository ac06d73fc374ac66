"""Which queued run goes where: a pure function on plain values, one cluster at a time.

Strictly first come, first served: a run that waits makes those behind it wait, so that no gang starves. Only a run
that no set of the cluster's registered nodes could ever hold is stepped over. A run gets all its nodes at once or
none, all of one accelerator kind, on the nodes where it leaves the least unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CPU, GPU, AUTO = "cpu", "gpu", "auto"


@dataclass(frozen=True)
class Request:
    """A queued run: ``slots_per_node`` slots on each of ``num_nodes`` nodes."""

    run: str
    num_nodes: int
    slots_per_node: int
    accelerator: str = AUTO

    @property
    def num_slots(self) -> int:
        return self.num_nodes * self.slots_per_node


@dataclass(frozen=True)
class Room:
    """A registered node and the slots of it that nobody holds."""

    node: str
    name: str
    num_slots: int
    free: tuple[int, ...]
    accelerator: str = CPU
    is_in_contact: bool = True
    is_draining: bool = False

    @property
    def is_usable(self) -> bool:
        return self.is_in_contact and not self.is_draining


@dataclass(frozen=True)
class Part:
    """One node's part of a placement; the order of the parts is the order of the node ranks."""

    node: str
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
    run: str
    accelerator: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Waiting:
    run: str
    sentence: str


def place(cluster: str, requests: Sequence[Request], rooms: Sequence[Room]) -> list[Placed | Waiting]:
    """Return a placement or the reason to wait for each request, which come oldest first. ``cluster`` is its name."""
    free = {room.node: room.free for room in rooms}
    answers: list[Placed | Waiting] = []
    num_ahead = 0
    for request in requests:
        placed = None if num_ahead else _fit(request, rooms, free)
        if placed is not None:
            for part in placed.parts:
                free[part.node] = tuple(slot for slot in free[part.node] if slot not in part.slots)
            answers.append(placed)
            continue
        answers.append(Waiting(request.run, _reason(cluster, request, rooms, free, num_ahead)))
        if _could_ever_fit(request, rooms):
            num_ahead += 1
    return answers


def _fit(request: Request, rooms: Sequence[Room], free: dict[str, tuple[int, ...]]) -> Placed | None:
    for kind in _kinds(request):
        fitting = [
            room
            for room in rooms
            if room.is_usable and room.accelerator == kind and len(free[room.node]) >= request.slots_per_node
        ]
        if len(fitting) < request.num_nodes:
            continue
        fitting.sort(key=lambda room: (len(free[room.node]), room.name))
        chosen = sorted(fitting[: request.num_nodes], key=lambda room: room.name)
        parts = tuple(Part(room.node, free[room.node][: request.slots_per_node]) for room in chosen)
        return Placed(request.run, kind, parts)
    return None


def _could_ever_fit(request: Request, rooms: Sequence[Room]) -> bool:
    """Whether all registered nodes together, idle and in contact, could hold the run."""
    return any(
        sum(room.accelerator == kind and room.num_slots >= request.slots_per_node for room in rooms)
        >= request.num_nodes
        for kind in _kinds(request)
    )


def _kinds(request: Request) -> tuple[str, ...]:
    return (GPU, CPU) if request.accelerator == AUTO else (request.accelerator,)


def _reason(
    cluster: str, request: Request, rooms: Sequence[Room], free: dict[str, tuple[int, ...]], num_ahead: int
) -> str:
    if not rooms:
        return f"Waiting for a node: cluster {cluster} has none yet."
    ahead = f", {_count(num_ahead, 'run')} ahead of yours" if num_ahead else ""
    matching = [room for room in rooms if room.accelerator in _kinds(request)]
    if not _could_ever_fit(request, rooms):
        largest = max((room.num_slots for room in matching), default=0)
        return (
            f"Waiting for larger or more nodes: cluster {cluster} has {_count(len(matching), 'node')}{_kind(request)} "
            f"of at most {_count(largest, 'slot')}, this run needs {_count(request.num_nodes, 'node')} "
            f"with {_count(request.slots_per_node, 'slot')} each."
        )
    usable = [room for room in matching if room.is_usable]
    num_free = sum(len(free[room.node]) for room in usable)
    num_slots = sum(room.num_slots for room in usable)
    state = f"{num_free} of {num_slots} free{ahead}{_away(matching)}."
    slots = _slots(request, matching)
    missing = request.num_slots - num_free
    if missing > 0:
        return f"Waiting for {missing} more {_plural(missing, slots)} on cluster {cluster}: {state}"
    fitting = sum(len(free[room.node]) >= request.slots_per_node for room in usable)
    if fitting < request.num_nodes:
        more = request.num_nodes - fitting
        wanted = _plural(request.slots_per_node, slots)
        return (
            f"Waiting for {more} more {_plural(more, 'node')} with {request.slots_per_node} free {wanted} "
            f"on cluster {cluster}: {state}"
        )
    return f"Waiting its turn on cluster {cluster}: {state}"


def _away(rooms: Sequence[Room]) -> str:
    """Name the nodes that would help but cannot."""
    offline = [room.name for room in rooms if not room.is_in_contact]
    draining = [room.name for room in rooms if room.is_in_contact and room.is_draining]
    words = ""
    if offline:
        words += f"; {_names(offline)} out of contact"
    if draining:
        words += f"; {_names(draining)} draining"
    return words


def _names(names: Sequence[str]) -> str:
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return f"{listed} {'is' if len(names) == 1 else 'are'}"


def _slots(request: Request, rooms: Sequence[Room]) -> str:
    kinds = {room.accelerator for room in rooms} if request.accelerator == AUTO else {request.accelerator}
    return {frozenset({CPU}): "CPU slot", frozenset({GPU}): "GPU"}.get(frozenset(kinds), "slot")


def _kind(request: Request) -> str:
    return "" if request.accelerator == AUTO else f" with {request.accelerator.upper()} slots"


def _count(number: int, word: str) -> str:
    return f"{'one' if number == 1 and word == 'run' else number} {_plural(number, word)}"


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"

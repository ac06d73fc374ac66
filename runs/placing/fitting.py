"""Requests of runs, the rooms of nodes, and which of these hold which of those. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

CPU, GPU, AUTO = "cpu", "gpu", "auto"

Shape = tuple[int, int, str, bool]


@dataclass(frozen=True)
class Request:
    """A queued run: ``slots_per_node`` slots on each of ``num_nodes`` nodes."""

    run: str
    num_nodes: int  # of an elastic run: the least
    slots_per_node: int
    accelerator: str = AUTO
    before: frozenset[str] = frozenset()  # nodes of its last attempt, where its working folder lies
    excluded: frozenset[str] = frozenset()  # nodes that it must not have
    avoided: frozenset[str] = frozenset()  # nodes that it gets only where there is no other
    node_counts: tuple[int, ...] = ()  # of an elastic run: all on which it trains, the least first
    priority: int = 50  # 0 to 100, of which the highest comes first
    num_shares: int = 1  # into which a slot is divided, of which a run of one rank takes one
    in_container: bool = False  # its ranks need nodes that run containers
    project: str = ""  # its name
    person: int | None = None  # who submitted it
    lasts_s: float | None = None  # as is expected; None: nobody can say

    @property
    def num_slots(self) -> int:
        return self.num_nodes * self.slots_per_node

    @property
    def whole_slots(self) -> float:
        """Slots, a share of one as its fraction."""
        return self.num_slots / self.num_shares

    @property
    def shape(self) -> Shape:
        return self.num_nodes, self.slots_per_node, self.accelerator, self.in_container


@dataclass(frozen=True)
class DividedSlot:
    """A slot of which runs hold shares, and the shares that nobody holds."""

    num_shares: int
    free: tuple[int, ...]


@dataclass(frozen=True)
class Room:
    """A registered node and the slots of it of which nobody holds anything."""

    node: str
    name: str
    num_slots: int
    free: tuple[int, ...]
    accelerator: str = CPU
    is_in_contact: bool = True
    is_draining: bool = False
    is_cold: bool = False  # its warm process is not there: an attempt would wait for it
    is_exposed: bool = False  # its sandbox level is below what the cluster asks for
    runs_containers: bool = True  # so far as anybody knows
    trouble: str = ""  # a sentence: why an engine cannot free its machine now
    divided: Mapping[int, DividedSlot] = field(default_factory=dict)  # by the number of the slot
    ends: Mapping[int, float] = field(default_factory=dict)  # seconds until a held slot is expected to come free

    @property
    def is_usable(self) -> bool:
        return self.is_in_contact and not self.is_draining and not self.is_exposed


@dataclass(frozen=True)
class Part:
    """One node's part of a placement; the order of the parts is the order of the node ranks. Of a divided slot it has
    the ``share`` of that number."""

    node: str
    slots: tuple[int, ...]
    share: int = 0
    num_shares: int = 1


@dataclass(frozen=True)
class Placed:
    run: str
    accelerator: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Waiting:
    """``has_claim``: the cluster could hold the run, so that nobody behind it is given free slots."""

    run: str
    sentence: str
    has_claim: bool = False


Answer = Placed | Waiting


def fit_any(
    request: Request,
    rooms: Sequence[Room],
    free: dict[str, tuple[int, ...]],
    divided: Mapping[str, Mapping[int, DividedSlot]],
) -> Placed | None:
    """Place a run; one that takes a share of a slot into a slot that is divided alike, else into one that is free."""
    if request.num_shares == 1:
        return fit(request, rooms, free)
    for kind in kinds_of(request):
        for room in sorted(rooms, key=lambda room: (room.node in request.avoided, room.is_cold, room.name)):
            if room.accelerator != kind or not is_usable(room, request):
                continue
            for slot, one in sorted(divided[room.node].items()):
                if one.num_shares == request.num_shares and one.free:
                    return Placed(request.run, kind, (Part(room.node, (slot,), one.free[0], one.num_shares),))
    placed = fit(request, rooms, free)
    if placed is None:
        return None
    return replace(placed, parts=tuple(replace(one, num_shares=request.num_shares) for one in placed.parts))


def take_share(divided: dict[int, DividedSlot], part: Part) -> None:
    (slot,) = part.slots
    before = divided.get(slot, DividedSlot(part.num_shares, tuple(range(part.num_shares))))
    divided[slot] = replace(before, free=tuple(one for one in before.free if one != part.share))


def fit(request: Request, rooms: Sequence[Room], free: dict[str, tuple[int, ...]]) -> Placed | None:
    for kind in kinds_of(request):
        fitting = [
            room
            for room in rooms
            if len(free[room.node]) >= request.slots_per_node and room.accelerator == kind and is_usable(room, request)
        ]
        if len(fitting) < request.num_nodes:
            continue
        fitting.sort(
            key=lambda room: (
                room.node in request.avoided,
                room.node not in request.before,
                room.is_cold,
                _fragments(room, len(free[room.node]), request.slots_per_node),
                len(free[room.node]),
                room.name,
            )
        )
        chosen = sorted(fitting[: request.num_nodes], key=lambda room: room.name)
        parts = tuple(Part(room.node, free[room.node][: request.slots_per_node]) for room in chosen)
        return Placed(request.run, kind, parts)
    return None


def _fragments(room: Room, num_free: int, taken: int) -> int:
    """Return by how many the partly used nodes become more: 1 for an idle node of which something is left, -1 for one
    that is used and becomes full."""
    return (num_free > taken) - (num_free < room.num_slots)


def is_usable(room: Room, request: Request) -> bool:
    return room.is_usable and room.node not in request.excluded and suits(room, request)


def suits(room: Room, request: Request) -> bool:
    """Return whether the node has what the ranks are to run in."""
    return room.runs_containers or not request.in_container


def has_room(request: Request, rooms: Sequence[Room], own: Mapping[str, int]) -> bool:
    """Return whether nodes that the run may have could take it now, counting slots by node that are its ``own``."""
    able = [room for room in rooms if is_usable(room, request)]
    free = [room.accelerator for room in able if len(room.free) + own.get(room.node, 0) >= request.slots_per_node]
    return any(free.count(kind) >= request.num_nodes for kind in kinds_of(request))


def could_ever_fit(request: Request, rooms: Sequence[Room]) -> bool:
    """Return whether all registered nodes together, idle and in contact, could hold the run."""
    return any(
        sum(room.accelerator == kind and room.num_slots >= request.slots_per_node for room in rooms)
        >= request.num_nodes
        for kind in kinds_of(request)
    )


def kinds_of(request: Request) -> tuple[str, ...]:
    return (GPU, CPU) if request.accelerator == AUTO else (request.accelerator,)

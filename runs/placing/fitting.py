"""Requests of runs, the rooms of nodes, and which of these hold which of those. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from runs.values.status import WaitCode
from trainyard.contract.machines import Inventory
from trainyard.grouping import grouped
from trainyard.spec.needs import Needs, lacking

CPU, GPU, AUTO = "cpu", "gpu", "auto"

Free = dict[str, tuple[int, ...]]  # slots by node
Cost = Callable[["Room"], tuple[int, ...]]  # what there is against a node, the weightiest first


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
    needs: Needs | None = None  # beside slots

    @property
    def num_slots(self) -> int:
        return self.num_nodes * self.slots_per_node

    @property
    def whole_slots(self) -> float:
        """Slots, a share of one as its fraction."""
        return self.num_slots / self.num_shares

    @property
    def shape(self) -> tuple[object, ...]:
        needs = self.needs and msgspec.structs.replace(self.needs, preferred=(), num_near=1, kept=())
        return self.num_nodes, self.slots_per_node, self.accelerator, self.in_container, needs

    @property
    def level(self) -> str:
        """The level of the topology, such as rack, in one place of which it has all its nodes; empty: anywhere."""
        return self.needs.within if self.needs and self.num_nodes > 1 else ""

    def areas(self, rooms: Sequence["Room"]) -> list[list["Room"]]:
        """Return the nodes of each kind, and of each place where it asks for one: all of its own are among one list."""
        own = [[room for room in rooms if room.accelerator == kind] for kind in kinds_of(self)]
        if not (level := self.level):
            return own
        places = (grouped((place, room) for room in ones if (place := room.around(level))) for ones in own)
        return [area for found in places for area in found.values()]


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
    machine: Inventory = field(default_factory=Inventory)
    place: tuple[str, ...] = ()  # its switch, rack and so on: near to far; empty where its labels name none
    levels: tuple[str, ...] = ()  # names of these

    @property
    def is_usable(self) -> bool:
        return self.is_in_contact and not self.is_draining and not self.is_exposed

    def area(self, level: int) -> tuple[str, ...]:
        """Return its place of the level with all around it; where it has none the next nearer one, else the node."""
        return (self.node,) if level < 0 else self.place[level:] if self.place[level] else self.area(level - 1)

    def around(self, level: str) -> tuple[str, ...]:
        """Return its place of the level of that name with all around it; empty where nobody knows it."""
        place = self.place[self.levels.index(level) :] if level in self.levels else ()
        return place if place and place[0] else ()


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
    code: WaitCode
    sentence: str
    has_claim: bool = False


Answer = Placed | Waiting


def fit_any(
    request: Request, rooms: Sequence[Room], free: Free, divided: Mapping[str, Mapping[int, DividedSlot]]
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
    if (placed := fit(request, rooms, free)) is None:
        return None
    return replace(placed, parts=tuple(replace(one, num_shares=request.num_shares) for one in placed.parts))


def take_share(divided: dict[int, DividedSlot], part: Part) -> None:
    (slot,) = part.slots
    before = divided.get(slot, DividedSlot(part.num_shares, tuple(range(part.num_shares))))
    divided[slot] = replace(before, free=tuple(one for one in before.free if one != part.share))


def fit(request: Request, rooms: Sequence[Room], free: Free) -> Placed | None:
    able = [room for room in rooms if len(free[room.node]) >= request.slots_per_node and is_usable(room, request)]
    wide = [area for area in request.areas(able) if len(area) >= request.num_nodes]
    if not wide:
        return None
    if request.level:  # of the same kind, the place where it was, or the smallest: a large one stays for others
        same = [area for area in wide if area[0].accelerator == wide[0][0].accelerator]
        wide = [min(same, key=lambda area: (-sum(room.node in request.before for room in area), len(area)))]
    chosen = _chosen(request, wide[0], free)
    chosen.sort(key=lambda room: (room.place[::-1], room.name))  # ranks in a row have nodes near to each other
    parts = tuple(Part(room.node, free[room.node][: request.slots_per_node]) for room in chosen)
    return Placed(request.run, chosen[0].accelerator, parts)


def _chosen(request: Request, fitting: list[Room], free: Free) -> list[Room]:
    """Return which of the nodes that fit the run gets: those of its last attempt, else those nearest to each other."""
    needs, count, taken = request.needs, request.num_nodes, request.slots_per_node

    def cost(room: Room) -> tuple[int, ...]:
        num_free = len(free[room.node])
        return (
            room.node in request.avoided,
            room.node not in request.before,
            len(lacking(needs.preferred, room.machine)) if needs else 0,
            room.is_cold,
            (num_free > taken) - (num_free < room.num_slots),  # partly used nodes, more or fewer
            len(needs.fetched(room.machine)) if needs else 0,
            num_free,
        )

    fitting.sort(key=lambda room: (cost(room), room.name))
    if count == 1 or not fitting[0].place or fitting[0].node in request.before:
        return fitting[:count]
    own = [room for room in fitting if room.node not in request.avoided]
    num_near = needs.num_near if needs and count % needs.num_near == 0 else 1
    return _nearest(own if len(own) >= count else fitting[:count], count, num_near, cost, len(fitting[0].place) - 1)


def _nearest(rooms: list[Room], count: int, num_near: int, cost: Cost, level: int) -> list[Room]:
    """Return so many of the rooms, which come best first, in as few places of the level as can be, and within these in
    as few of the next nearer one. Of each place there are ``num_near``, or a multiple of it, where that can be. Of
    places that are alike the smallest is taken: large ones stay for others."""
    if level < 0:
        return rooms[:count]
    areas = sorted(grouped((room.area(level), room) for room in rooms).values(), key=len)
    if sum(len(one) // num_near for one in areas) * num_near < count:
        num_near = 1

    def weight(chosen: list[Room]) -> list[int]:
        spread = [len({room.area(nearer) for room in chosen}) for nearer in range(level - 1, -1, -1)]
        return spread + [sum(one) for one in zip(*map(cost, chosen), strict=True)]

    found: list[Room] = []
    while not (whole := [one for one in areas if len(one) >= count - len(found)]):
        largest = max(areas, key=lambda one: len(one) // num_near)
        areas = [one for one in areas if one is not largest]
        found += _nearest(largest, len(largest) // num_near * num_near, num_near, cost, level - 1)
    return found + min((_nearest(one, count - len(found), num_near, cost, level - 1) for one in whole), key=weight)


def is_usable(room: Room, request: Request) -> bool:
    return room.is_usable and room.node not in request.excluded and suits(room, request)


def suits(room: Room, request: Request) -> bool:
    """Return whether the node has what the ranks are to run in, and what else they need."""
    return has_needed(room, request.needs) and (room.runs_containers or not request.in_container)


def has_needed(room: Room, needs: Needs | None) -> bool:
    return needs is None or not needs.missing(room.machine)


def has_room(request: Request, rooms: Sequence[Room], own: Mapping[str, int]) -> bool:
    """Return whether nodes that the run may have could take it now, counting slots by node that are its ``own``."""
    able = [room for room in rooms if is_usable(room, request)]
    wide = [room for room in able if len(room.free) + own.get(room.node, 0) >= request.slots_per_node]
    return any(len(area) >= request.num_nodes for area in request.areas(wide))


def could_ever_fit(request: Request, rooms: Sequence[Room]) -> bool:
    """Return whether all registered nodes together, idle and in contact, could hold the run."""
    wide = [one for one in rooms if one.num_slots >= request.slots_per_node and has_needed(one, request.needs)]
    return any(len(area) >= request.num_nodes for area in request.areas(wide))


def kinds_of(request: Request) -> tuple[str, ...]:
    return (GPU, CPU) if request.accelerator == AUTO else (request.accelerator,)

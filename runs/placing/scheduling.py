"""Placement of queued runs: a pure function on plain values, one cluster at a time.

Strictly first come, first served: a run that waits makes those behind it wait, so that no gang starves. Only a run
that no set of the cluster's registered nodes could ever hold is stepped over. A run gets all its nodes at once or
none, all of one accelerator kind, on the nodes where it leaves the least unused. An elastic run starts on its least
number of nodes; what nobody waits for then is given to such runs, in their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainyard.formats.words import listed

CPU, GPU, AUTO = "cpu", "gpu", "auto"
NUM_COUNTED = 100  # runs ahead of a waiting one are counted so far; a longer queue has only its order of magnitude
MANY = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)

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
    priority: int = 0  # -1 is high, 1 is low
    num_shares: int = 1  # into which a slot is divided, of which a run of one rank takes one
    in_container: bool = False  # its ranks need nodes that run containers
    project: str = ""  # its name
    person: int | None = None  # who submitted it

    @property
    def num_slots(self) -> int:
        return self.num_nodes * self.slots_per_node

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


def place(cluster: str, requests: Sequence[Request], rooms: Sequence[Room]) -> list[Answer]:
    """Return a placement or the reason to wait for each request, which come oldest first. ``cluster`` is its name."""
    free = {room.node: room.free for room in rooms}
    divided = {room.node: dict(room.divided) for room in rooms}
    unfit: dict[Shape, str] = {}  # why none of a shape can ever start, or "": a long queue asks for few shapes
    answers: list[Answer] = []
    first: Request | None = None  # of those that keep the others waiting
    num_ahead = 0
    for request in requests:
        placed = None if first else _fit_any(request, rooms, free, divided)
        if placed is not None:
            for part in placed.parts:
                free[part.node] = tuple(slot for slot in free[part.node] if slot not in part.slots)
                if part.num_shares > 1:
                    _take_share(divided[part.node], part)
            answers.append(placed)
            continue
        if request.shape not in unfit:
            unfit[request.shape] = _why_never(cluster, request, rooms)
        is_behind = False
        sentence = unfit[request.shape] or _why_not_without(cluster, request, rooms)
        if not sentence:
            is_behind = first is not None
            sentence = _turn(cluster, num_ahead, first) if first else _reason(cluster, request, rooms, free)
            first = first or request
            num_ahead += 1
        answers.append(Waiting(request.run, sentence, has_claim=request is first or is_behind))
    return answers if first else _widened(requests, rooms, free, answers)


def _widened(
    requests: Sequence[Request], rooms: Sequence[Room], free: dict[str, tuple[int, ...]], answers: Sequence[Answer]
) -> list[Answer]:
    """Return the answers with what is left in ``free`` given to elastic runs, in their order."""
    elastic = {request.run: request for request in requests if request.node_counts and request.num_shares == 1}
    return [
        _wider(elastic[answer.run], rooms, free, answer)
        if isinstance(answer, Placed) and answer.run in elastic
        else answer
        for answer in answers
    ]


def _wider(request: Request, rooms: Sequence[Room], free: dict[str, tuple[int, ...]], least: Placed) -> Placed:
    own = {part.node: part.slots for part in least.parts}
    with_own = {node: tuple(sorted((*slots, *own.get(node, ())))) for node, slots in free.items()}
    for number in reversed(request.node_counts):
        placed = _fit(replace(request, num_nodes=number, accelerator=least.accelerator), rooms, with_own)
        if placed is not None:
            for node, slots in with_own.items():
                taken = {slot for part in placed.parts if part.node == node for slot in part.slots}
                free[node] = tuple(slot for slot in slots if slot not in taken)
            return placed
    return least


def _fit_any(
    request: Request,
    rooms: Sequence[Room],
    free: dict[str, tuple[int, ...]],
    divided: Mapping[str, Mapping[int, DividedSlot]],
) -> Placed | None:
    """Place a run; one that takes a share of a slot into a slot that is divided alike, else into one that is free."""
    if request.num_shares == 1:
        return _fit(request, rooms, free)
    for kind in _kinds(request):
        for room in sorted(rooms, key=lambda room: (room.node in request.avoided, room.is_cold, room.name)):
            if room.accelerator != kind or not _is_usable(room, request):
                continue
            for slot, one in sorted(divided[room.node].items()):
                if one.num_shares == request.num_shares and one.free:
                    return Placed(request.run, kind, (Part(room.node, (slot,), one.free[0], one.num_shares),))
    placed = _fit(request, rooms, free)
    if placed is None:
        return None
    return replace(placed, parts=tuple(replace(one, num_shares=request.num_shares) for one in placed.parts))


def _take_share(divided: dict[int, DividedSlot], part: Part) -> None:
    (slot,) = part.slots
    before = divided.get(slot, DividedSlot(part.num_shares, tuple(range(part.num_shares))))
    divided[slot] = replace(before, free=tuple(one for one in before.free if one != part.share))


def _fit(request: Request, rooms: Sequence[Room], free: dict[str, tuple[int, ...]]) -> Placed | None:
    for kind in _kinds(request):
        fitting = [
            room
            for room in rooms
            if _is_usable(room, request) and room.accelerator == kind and len(free[room.node]) >= request.slots_per_node
        ]
        if len(fitting) < request.num_nodes:
            continue
        fitting.sort(
            key=lambda room: (
                room.node in request.avoided,
                room.node not in request.before,
                room.is_cold,
                len(free[room.node]),
                room.name,
            )
        )
        chosen = sorted(fitting[: request.num_nodes], key=lambda room: room.name)
        parts = tuple(Part(room.node, free[room.node][: request.slots_per_node]) for room in chosen)
        return Placed(request.run, kind, parts)
    return None


def _is_usable(room: Room, request: Request) -> bool:
    return room.is_usable and room.node not in request.excluded and _suits(room, request)


def _suits(room: Room, request: Request) -> bool:
    """Return whether the node has what the ranks are to run in."""
    return room.runs_containers or not request.in_container


def has_room(request: Request, rooms: Sequence[Room], own: Mapping[str, int]) -> bool:
    """Return whether nodes that the run may have could take it now, counting slots by node that are its ``own``."""
    able = [room for room in rooms if _is_usable(room, request)]
    free = [room.accelerator for room in able if len(room.free) + own.get(room.node, 0) >= request.slots_per_node]
    return any(free.count(kind) >= request.num_nodes for kind in _kinds(request))


def could_ever_fit(request: Request, rooms: Sequence[Room]) -> bool:
    """Return whether all registered nodes together, idle and in contact, could hold the run."""
    return any(
        sum(room.accelerator == kind and room.num_slots >= request.slots_per_node for room in rooms)
        >= request.num_nodes
        for kind in _kinds(request)
    )


def _kinds(request: Request) -> tuple[str, ...]:
    return (GPU, CPU) if request.accelerator == AUTO else (request.accelerator,)


def _turn(cluster: str, num_ahead: int, first: Request) -> str:
    """The reason of who waits behind others. It holds nothing that changes for a whole long queue at once: every
    change is written to the rows."""
    if num_ahead > NUM_COUNTED:
        ahead = f"more than {max(one for one in MANY if one < num_ahead):,} runs are ahead of yours"
        return f"Waiting its turn on cluster {cluster}: {ahead}."
    ahead = f"{num_ahead} runs are ahead of yours, and the first" if num_ahead > 1 else "one run is ahead of yours, and"
    return f"Waiting its turn on cluster {cluster}: {ahead} needs {_needs(first)}."


def _needs(request: Request) -> str:
    each = "" if request.num_nodes == 1 else " each"
    return f"{_count(request.num_nodes, 'node')} with {_count(request.slots_per_node, 'slot')}{each}"


def _why_never(cluster: str, request: Request, rooms: Sequence[Room]) -> str:
    """Say why the registered nodes could not hold the run even if they were idle; nothing where they could."""
    if not rooms:
        return f"Waiting for a node: cluster {cluster} has none yet."
    if could_ever_fit(request, rooms):
        return _why_no_container(cluster, request, rooms)
    matching = [room for room in rooms if room.accelerator in _kinds(request)]
    largest = max((room.num_slots for room in matching), default=0)
    return (
        f"Waiting for larger or more nodes: cluster {cluster} has {_count(len(matching), 'node')}{_kind(request)} "
        f"of at most {_count(largest, 'slot')}, this run needs {_count(request.num_nodes, 'node')} "
        f"with {_count(request.slots_per_node, 'slot')} each."
    )


def _why_no_container(cluster: str, request: Request, rooms: Sequence[Room]) -> str:
    """Say that the nodes which run containers could not hold it even if they were idle; nothing where they could."""
    able = [room for room in rooms if _suits(room, request)]
    if could_ever_fit(request, able):
        return ""
    without = listed([room.name for room in rooms if not _suits(room, request)], at_most=3)
    rest = f" without Podman are {without}, and the rest cannot hold it." if able else " none of its nodes has Podman."
    return f"Waiting for nodes that run containers on cluster {cluster}:{rest}"


def _why_not_without(cluster: str, request: Request, rooms: Sequence[Room]) -> str:
    """Say that the nodes which the run may have could not hold it even if they were idle; nothing where they could."""
    others = [room for room in rooms if room.node not in request.excluded]
    if len(others) == len(rooms) or could_ever_fit(request, others):
        return ""
    names = _names([room.name for room in rooms if room.node in request.excluded])
    return f"Waiting for other nodes on cluster {cluster}: {names} left out, and the rest cannot hold it."


def _reason(cluster: str, request: Request, rooms: Sequence[Room], free: dict[str, tuple[int, ...]]) -> str:
    matching = [room for room in rooms if room.accelerator in _kinds(request)]
    usable = [room for room in matching if _is_usable(room, request)]
    num_free = sum(len(free[room.node]) for room in usable)
    num_slots = sum(room.num_slots for room in usable)
    trouble = "".join(f" {one}" for one in dict.fromkeys(room.trouble for room in matching) if one)
    state = f"{num_free} of {num_slots} free{_away(matching, request)}.{trouble}"
    slots = _slots(request, matching)
    missing = request.num_slots - num_free
    if missing > 0:
        return f"Waiting for {missing} more {_plural(missing, slots)} on cluster {cluster}: {state}"
    fitting = [room.accelerator for room in usable if len(free[room.node]) >= request.slots_per_node]
    more = request.num_nodes - max(fitting.count(kind) for kind in _kinds(request))
    wanted = _plural(request.slots_per_node, slots)
    return (
        f"Waiting for {more} more {_plural(more, 'node')} with {request.slots_per_node} free {wanted} "
        f"on cluster {cluster}: {state}"
    )


def _away(rooms: Sequence[Room], request: Request) -> str:
    """Name the nodes that would help but cannot."""
    left_out = [room.name for room in rooms if room.is_usable and room.node in request.excluded]
    unable = [room.name for room in rooms if room.is_usable and not _suits(room, request)]
    offline = [room.name for room in rooms if not room.is_in_contact]
    draining = [room.name for room in rooms if room.is_in_contact and room.is_draining]
    exposed = [room.name for room in rooms if room.is_in_contact and not room.is_draining and room.is_exposed]
    words = ""
    if offline:
        words += f"; {_names(offline)} out of contact"
    if draining:
        words += f"; {_names(draining)} draining"
    if exposed:
        words += f"; {_names(exposed)} below the sandbox level that the cluster asks for"
    if unable:
        words += f"; {_names(unable)} without Podman, which its container needs"
    if left_out:
        words += f"; {_names(left_out)} left out"
    return words


def _names(names: Sequence[str]) -> str:
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def _slots(request: Request, rooms: Sequence[Room]) -> str:
    kinds = {room.accelerator for room in rooms} if request.accelerator == AUTO else {request.accelerator}
    return {frozenset({CPU}): "CPU slot", frozenset({GPU}): "GPU"}.get(frozenset(kinds), "slot")


def _kind(request: Request) -> str:
    return "" if request.accelerator == AUTO else f" with {request.accelerator.upper()} slots"


def _count(number: int, word: str) -> str:
    return f"{number} {_plural(number, word)}"


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"

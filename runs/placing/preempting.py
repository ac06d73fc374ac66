"""Runs that make room for one of higher priority, or for what a project is guaranteed: pure, by trying what fits.

Elastic runs shrink first: those of the lowest priority, and of these who loses the least speed by each slot. Then
others end and wait, the youngest of the lowest priority first. Nobody is asked for more than is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from runs.placing.fitting import Placed, Request, Room
from runs.placing.policies import Standing, Standings
from runs.placing.scheduling import place
from runs.placing.speeds import ASSUMED, Speed


@dataclass(frozen=True)
class SlotHolder:
    """A run that trains, with the slots that it holds by node. ``request`` is what it would ask for again."""

    request: Request
    slots: tuple[tuple[str, tuple[int, ...]], ...]
    trained_s: float = 0.0  # since its ranks began
    speed: Speed = ASSUMED
    may_end: bool = True  # False: it gives back what it has above its least number, and no more

    @property
    def num_nodes(self) -> int:
        return len(self.slots)

    @property
    def num_slots(self) -> int:
        return sum(len(slots) for _, slots in self.slots)

    @property
    def can_shrink(self) -> bool:
        return bool(self.request.node_counts) and self.request.num_nodes < self.num_nodes


@dataclass(frozen=True)
class Concession:
    """The run goes on with ``num_nodes`` nodes; 0: it ends, and waits for its turn."""

    run: str
    num_nodes: int


def askable(
    request: Request,
    holders: Sequence[SlotHolder],
    standings: Standings,
    *,
    asks_others: bool = True,
    spared_s: float = 0,
) -> list[SlotHolder]:
    """Return the holders, oldest first, that may have to make room for the request: those of a lower priority
    (``asks_others``: of any project), and those on slots that are lent to their project, where the request is within
    what its own is guaranteed; and elastic ones of any project and no higher priority, which took what was idle, for
    what they have above their least number. Nobody loses what is guaranteed, and who has trained for less than
    ``spared_s`` is not asked."""
    own = standings.get(request.project, Standing())
    is_owed = own.held + request.whole_slots <= own.guaranteed
    left = {name: one.held - one.guaranteed for name, one in standings.items()}
    found = []
    for one in reversed([one for one in holders if one.trained_s >= spared_s]):
        project, slots = one.request.project, one.num_slots
        is_own = project == request.project
        if (asks_others or is_own) and one.request.priority < request.priority:
            found.append(one)
        elif is_owed and not is_own and left.get(project, 0.0) >= slots:
            left[project] -= slots
            found.append(one)
        elif one.can_shrink and one.request.priority <= request.priority:
            above = slots - one.request.num_slots
            if is_own or left.get(project, above) >= above:
                left[project] = left.get(project, above) - above
                found.append(replace(one, may_end=False))
    return found[::-1]


def make_room(request: Request, rooms: Sequence[Room], holders: Sequence[SlotHolder]) -> list[Concession]:
    """Return what lets the request be placed at once; nothing where nothing does. ``holders`` come oldest first, and
    may all be asked."""
    by_run = {one.request.run: one for one in holders}
    youngest_first = list(reversed(holders))
    ordered = sorted(youngest_first, key=lambda one: one.request.priority)
    offers = [offer for _, _, offer in sorted(chain.from_iterable(map(_shrinks, ordered)), key=lambda one: one[:2])]
    offers += [Concession(one.request.run, 0) for one in ordered if one.may_end]
    made: list[Concession] = []
    for offer in offers:
        made = [*(one for one in made if one.run != offer.run), offer]
        if _fits(request, rooms, by_run, made):
            break
    else:
        return []
    for one in list(made):
        others = [other for other in made if other.run != one.run]
        if _fits(request, rooms, by_run, others):
            made = others
    return made


def _shrinks(holder: SlotHolder) -> Iterator[tuple[int, float, Concession]]:
    """Yield the steps in which it shrinks, with its priority and what each slot of a step costs it."""
    request, now = holder.request, holder.num_nodes
    for number in reversed([one for one in request.node_counts if one < holder.num_nodes]):
        yield request.priority, holder.speed.gain(request.num_nodes, number, now), Concession(request.run, number)
        now = number


def _fits(
    request: Request, rooms: Sequence[Room], by_run: Mapping[str, SlotHolder], made: Sequence[Concession]
) -> bool:
    freed: dict[str, tuple[int, ...]] = {}
    for concession in made:
        for node, slots in by_run[concession.run].slots:
            freed[node] = (*freed.get(node, ()), *slots)
    emptied = [replace(room, free=tuple(sorted({*room.free, *freed.get(room.node, ())}))) for room in rooms]
    again = [replace(by_run[one.run].request, num_nodes=one.num_nodes, node_counts=()) for one in made if one.num_nodes]
    return all(isinstance(answer, Placed) for answer in place("", [*again, request], emptied))

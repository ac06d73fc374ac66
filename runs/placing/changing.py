"""Changes of the number of nodes of elastic runs while they train: pure functions on plain values."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from runs.placing.fitting import Room
from runs.placing.speeds import ASSUMED, Speed


@dataclass(frozen=True)
class Training:
    """An elastic run that trains on ``nodes`` (ids) and may have any of ``node_counts``, the least first."""

    run: str
    nodes: tuple[str, ...]
    node_counts: tuple[int, ...]
    slots_per_node: int
    accelerator: str  # of all its nodes
    left_out: frozenset[str] = frozenset()  # nodes that it does not grow onto
    in_container: bool = False  # its ranks need nodes that run containers
    speed: Speed = ASSUMED


@dataclass(frozen=True)
class Change:
    """The run is to train on ``num_nodes`` nodes. The names of nodes are sorted."""

    num_nodes: int
    leaving: tuple[str, ...] = ()  # it trains there, and they are drained or gone
    joining: tuple[str, ...] = ()  # they are free for it

    @property
    def is_growth(self) -> bool:
        """Return whether the change can wait: nothing is wrong with the nodes that it has."""
        return bool(self.joining) and not self.leaving


def change_of(training: Training, rooms: Sequence[Room], *, may_grow: bool) -> Change | None:
    """Return what is to change; None: nothing. Without ``may_grow`` somebody waits for the free slots.

    A run that would be left with less than its least number of nodes stays where it is: a drain asks nobody to end.
    Nodes that are out of contact count as its own, for whether they are lost is judged elsewhere.
    """
    known = {room.node: room for room in rooms}
    staying = [node for node in training.nodes if node in known and not known[node].is_draining]
    leaving = [node for node in training.nodes if node not in staying]
    free = [room for room in rooms if _is_free_for(room, training)] if may_grow else []
    fitting = [number for number in training.node_counts if number <= len(staying) + len(free)]
    if not fitting:
        return None
    target = fitting[-1]
    if not leaving and target == len(training.nodes):
        return None
    names = sorted(known[node].name if node in known else node for node in leaving)
    least_first = sorted(free, key=lambda room: (len(room.free), room.name))  # as for any other run
    joining = sorted(room.name for room in least_first[: max(0, target - len(staying))])
    return Change(target, tuple(names), tuple(joining))


def shared_out(trainings: Sequence[Training], rooms: Sequence[Room]) -> dict[str, int]:
    """Return up to how many nodes runs are to grow, those that gain most first; ``trainings`` come oldest first.

    What is free goes, one step of a run's numbers at a time, to the run that gains the most samples/s by each slot of
    it, of equals to the oldest."""
    left, free = list(trainings), {room.node: len(room.free) for room in rooms}
    found: dict[str, int] = {}
    taken: dict[str, set[str]] = defaultdict(set)
    while True:
        steps = []
        for one in left:
            able = [room for room in rooms if _is_free_for(room, one) and room.node not in taken[one.run]]
            able = [room for room in able if free[room.node] >= one.slots_per_node]
            before = found.get(one.run, len(one.nodes))
            after = next((number for number in one.node_counts if number > before), before)
            if before < after <= before + len(able):
                steps.append((one.speed.gain(one.node_counts[0], before, after), one, after - before, able))
        if not steps:
            return found
        left = [one for _, one, _, _ in steps]  # who can take nothing now cannot later
        _, one, more, able = max(steps, key=lambda step: step[0])
        for room in sorted(able, key=lambda room: (free[room.node], room.name))[:more]:
            taken[one.run].add(room.node)
            free[room.node] -= one.slots_per_node
        found[one.run] = found.get(one.run, len(one.nodes)) + more


def _is_free_for(room: Room, training: Training) -> bool:
    if room.node in training.nodes or room.node in training.left_out:
        return False
    is_alike = room.accelerator == training.accelerator and (room.runs_containers or not training.in_container)
    return room.is_usable and is_alike and len(room.free) >= training.slots_per_node

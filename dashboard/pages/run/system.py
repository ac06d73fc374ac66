"""The machines that a run trains on, in one picture: its nodes on their network, its ranks on them and its parallel
groups; and in a table a row for each node, a cell for each of its GPUs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from dashboard.pages.launch.plan import AxisRow, axis_row
from dashboard.pages.run.ranks import Rank, mesh_of, ranks_of
from dashboard.pages.shared.estimate import spans
from dashboard.pages.shared.gauges import Gauge, gauges
from runs.models import Attempt, HeldSlot, Node
from runs.placing.planning import BENCHMARK
from runs.presenting.server_state import contact_time
from runs.records.metrics.progress import facts_of, node_history
from trainyard.contract.base import SpecDocument
from trainyard.contract.facts import COMMUNICATION, CommunicationFacts, LinkFacts
from trainyard.contract.machines import GpuHealth
from trainyard.formats.figures import number, percent, size
from trainyard.grouping import grouped
from trainyard.spec import RecipeSpec, read_spec

SPAN_S = 600.0  # of the small charts
MAX_NODES = 256
OLD_S = 60.0
NUM_DRAWN = 16  # nodes, links, and groups along an axis; more where ranks are slow or nodes silent
NUM_RANKS = 32  # of a node that are drawn
AWAY, SLOW = BAD = "out of contact", "slow"
T = TypeVar("T")


class Cell(NamedTuple):
    """A GPU: how busy it is in tenths, None where nobody knows, and all that is known of it in words."""

    tenths: int | None
    text: str
    words: str


class Machine(NamedTuple):
    """A node of the run. ``is_old``: its figures are of ``at``, and newer ones did not come."""

    node: Node
    ranks: str
    gauges: list[Gauge]  # of the processor, the memory, the disk and the network
    cells: list[Cell]
    is_old: bool
    at: datetime | None
    state: str
    colour: str


def machines_of(attempt: Attempt, now: datetime) -> list[Machine]:
    """Return nodes of the attempt, at most MAX_NODES of those that are well. Of an attempt that has ended the figures
    are those of its end."""
    known = contact_time(now)
    placements = shown_of(attempt.placements.all(), lambda one: _state(one.node, attempt, known)[0] in BAD, MAX_NODES)
    held: dict[int, set[int]] = defaultdict(set)
    for placement, index in HeldSlot.objects.filter(placement__in=placements).values_list("placement", "index"):
        held[placement].add(index)
    until = (attempt.ended_at or now).timestamp()
    found = []
    for one in placements:
        history = node_history(one.node_id, since=until - SPAN_S, until=until, points=60)
        newest = one.node.health_now if attempt.ended_at is None else None
        health = newest or (history[-1] if history else None)
        seen = attempt.ended_at or one.node.seen_at
        drawn = gauges(health, history, until - SPAN_S, until)[:5]
        gpus, own = (health.gpus if health else None) or [], held[one.pk]
        # Where its slots were given back, all of the node's are shown.
        cells = [_cell(gpu) for gpu in gpus if not own or gpu.index is None or gpu.index in own]
        last = one.first_rank + one.num_ranks - 1
        ranks = f"{one.first_rank} to {last}" if one.num_ranks > 1 else f"{last}"
        is_old = seen is None or (now - seen).total_seconds() > OLD_S
        found.append(Machine(one.node, ranks, drawn, cells, is_old, seen, *_state(one.node, attempt, known)))
    return found


def _state(node: Node, attempt: Attempt, known: datetime) -> tuple[str, str]:
    """Return a word and a colour; ``known`` is up to when anybody knows who is in contact."""
    if attempt.ended_at is not None:
        return "ended", "grey"
    if not node.is_in_contact(known):
        return AWAY, "red"
    return (SLOW, "amber") if node.name in {one.node for one in attempt.stragglers} else ("in contact", "green")


def _cell(gpu: GpuHealth) -> Cell:
    busy = gpu.utilization_percent
    facts = [
        "use unknown" if busy is None else f"{percent(busy / 100)} busy",
        f"memory {size(gpu.memory_used_bytes)} of {size(gpu.memory_bytes)}" if gpu.memory_bytes else "",
        number(gpu.temperature_c, "°C") if gpu.temperature_c is not None else "",
        number(gpu.power_w, "W") if gpu.power_w is not None else "",
    ]
    tenths = None if busy is None else round(min(100.0, max(0.0, busy)) / 10)
    return Cell(tenths, "–" if busy is None else f"{busy:.0f}", f"GPU {gpu.index}: {', '.join(filter(None, facts))}")


# The drawing. Templates make its sentences.


class DrawnNode(NamedTuple):
    machine: Machine
    ranks: list[Rank]
    num_hidden: int
    states: dict[str, int]  # how many of its ranks are in each


class Group(NamedTuple):
    """Ranks that differ in their place on one axis alone."""

    ranks: list[Rank]
    span: str  # "0 to 3"
    nodes: list[str]  # more than one: it talks over the network
    is_bad: bool  # one of them is slow, or its node is silent


class Drawing(NamedTuple):
    nodes: list[DrawnNode]
    num_hidden: int
    axes: list[tuple[AxisRow, list[Group], int]]  # with the groups along it, and how many more there are
    links: list[LinkFacts]  # between nodes, as a benchmark measured them, the slowest first


def drawing_of(attempt: Attempt, document: SpecDocument, machines: Sequence[Machine]) -> Drawing:
    mesh = mesh_of(document, attempt.world_size)
    ranks = ranks_of(attempt, mesh)
    on_node, nodes = grouped((one.node, one) for one in ranks), []
    for one in shown_of(machines, lambda one: one.state in BAD, NUM_DRAWN):
        own = on_node[one.node.name]
        few = shown_of(own, lambda rank: bool(rank.slow), NUM_RANKS)
        states = Counter(SLOW if rank.slow else rank.state for rank in own)
        nodes.append(DrawnNode(one, few, len(own) - len(few), dict(states)))
    axes: list[tuple[AxisRow, list[Group], int]] = []
    read = read_spec(document) if mesh else None
    spec = read.at(len(on_node)) if isinstance(read, RecipeSpec) else None
    away = {one.node.name for one in machines if one.state == AWAY}
    if mesh and spec and spec.world_size() == attempt.world_size:
        for axis, degree in mesh.used.items():
            groups = _groups(ranks, axis, away)
            shown = shown_of(groups, lambda group: group.is_bad, NUM_DRAWN)
            axes.append((axis_row(spec, axis, degree), shown, len(groups) - len(shown)))
    is_benchmark = document.get("task", {}).get("recipe") == BENCHMARK  # a script may report anything under its name
    facts = facts_of(attempt.run_id, COMMUNICATION, CommunicationFacts, attempt=attempt.fence) if is_benchmark else {}
    return Drawing(nodes, len(on_node) - len(nodes), axes, facts[0].links[:NUM_DRAWN] if 0 in facts else [])


def _groups(ranks: Sequence[Rank], axis: str, away: Collection[str]) -> list[Group]:
    made = []
    others = ((tuple(at for name, at in one.place.items() if name != axis), one) for one in ranks)
    for group in grouped(others).values():
        nodes, is_bad = dict.fromkeys(one.node for one in group), any(one.slow or one.node in away for one in group)
        made.append(Group(group, spans(one.rank for one in group), list(nodes), is_bad))
    return made


def shown_of(things: Collection[T], is_bad: Callable[[T], bool], most: int) -> list[T]:
    """Return ``most`` of them in their order; all in which something is wrong, even where they are more."""
    bad = [is_bad(one) for one in things]
    room = iter(range(most - sum(bad)))
    return [one for one, is_shown in zip(things, bad, strict=True) if is_shown or next(room, None) is not None]

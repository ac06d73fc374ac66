"""The machines that a run trains on, in one picture: its nodes on their network, its ranks on them and its parallel
groups; and in a table a row for each node, a cell for each of its GPUs. And a benchmark's results."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from dashboard.pages.launch.plan import AxisRow, axis_row
from dashboard.pages.run.ranks import Rank, mesh_of, ranks_of
from dashboard.pages.shared.estimate import spans
from dashboard.pages.shared.gauges import Gauge, gauges
from runs.models import Attempt, HeldSlot, Node, Run
from runs.placing.planning import BENCHMARK, RATES
from runs.presenting.server_state import contact_time
from runs.records.metrics.progress import facts_of, node_history
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.contract.facts import COMMUNICATION, CommunicationFacts, LinkFacts, TransferPoint
from trainyard.contract.machines import GpuHealth
from trainyard.formats.figures import number, percent, scaled, seconds, size, speed
from trainyard.grouping import grouped
from trainyard.planner import Rates
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


# Results of a communication benchmark: a table of operations and sizes, and a matrix of pairs.

NUM_SHADES = 6
MAX_SIDE = 32  # nodes in the matrix


class SpeedCell(NamedTuple):
    latency: str
    bandwidth: str
    shade: int  # 0 to NUM_SHADES - 1, of the fastest in the table


class ResultLine(NamedTuple):
    name: str
    cells: list[SpeedCell | None]


def network_results(run: Run) -> dict[str, object] | None:
    """None until rank 0 has told."""
    found = facts_of(run.pk, COMMUNICATION, CommunicationFacts).get(0)
    if found is None:
        return None
    operations = {name: points for name, points in found.operations.items() if points}
    links = found.links
    sizes = sorted({int(point.size_bytes) for points in operations.values() for point in points})
    fastest = max((point.bytes_per_s for points in operations.values() for point in points), default=0.0)
    names = sorted({end for link in links for end in (link.first, link.second)})
    return {
        "world_size": found.world_size,
        "sizes": [size(one) for one in sizes],
        "operations": [ResultLine(name, _speed_cells(points, sizes, fastest)) for name, points in operations.items()],
        "names": names[:MAX_SIDE],
        "pairs": _matrix(names[:MAX_SIDE], links),
        "slowest": _slowest(links),
        "num_hidden": max(0, len(names) - MAX_SIDE),  # nodes that the matrix has no room for
        "compute": _compute(facts_of(run.pk, RATES, JsonObject).get(0)),  # of a rank, while its neighbours do the same
    }


def _compute(document: object) -> list[tuple[str, str]]:
    try:
        rates = Rates.from_document(document)
    except ValueError:  # nothing was reported, or nothing that is understood here
        return []
    return [
        ("Matrix products", f"{scaled(max(rate for _, rate in rates.matmul), 'FLOP/s')} at best"),
        ("Memory", f"{speed(rates.memory_bytes_per_s)} read and written"),
        ("Calling an operator", seconds(rates.operator_s)),
        ("A process of its own", size(rates.base_memory_bytes)),
    ]


def _speed_cells(points: list[TransferPoint], sizes: list[int], fastest: float) -> list[SpeedCell | None]:
    cells = {int(point.size_bytes): _cell_of(point.seconds, point.bytes_per_s, fastest) for point in points}
    return [cells.get(one) for one in sizes]


def _cell_of(latency_s: float, bytes_per_s: float, fastest: float) -> SpeedCell:
    share = bytes_per_s / fastest if fastest > 0 else 0.0
    return SpeedCell(seconds(latency_s), speed(bytes_per_s), min(NUM_SHADES - 1, int(share * NUM_SHADES)))


def _matrix(names: list[str], links: list[LinkFacts]) -> list[ResultLine]:
    fastest = max((link.bytes_per_s for link in links), default=0.0)
    cells = {}
    for link in links:
        cell = _cell_of(link.latency_s, link.bytes_per_s, fastest)
        cells[link.first, link.second] = cells[link.second, link.first] = cell
    return [ResultLine(one, [cells.get((one, other)) for other in names]) for one in names]


def _slowest(links: list[LinkFacts]) -> str:
    if len(links) < 2:
        return ""
    ordered = sorted(links, key=lambda link: link.bytes_per_s)
    slow, middle = ordered[0], ordered[len(ordered) // 2]
    ratio = middle.bytes_per_s / slow.bytes_per_s if slow.bytes_per_s else 0
    words = f"{slow.first} and {slow.second} have the slowest link: {speed(slow.bytes_per_s)}"
    return f"{words}, {ratio:.1f} times less than the middle one." if ratio >= 1.2 else f"{words}."

"""The machines that a run trains on, in one picture: a row for each node, a cell for each of its GPUs."""

from collections import defaultdict
from datetime import datetime
from typing import NamedTuple

from dashboard.pages.shared.gauges import Gauge, gauges
from runs.models import HeldSlot, Node, Run
from runs.records.metrics.progress import node_history
from trainyard.contract.machines import GpuHealth, Health
from trainyard.formats.figures import number, percent, size

SPAN_S = 600.0  # of the small charts
MAX_NODES = 256
OLD_S = 60.0


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


def machines_of(run: Run, now: datetime) -> tuple[list[Machine], int]:
    """Return the nodes of the newest attempt, at most MAX_NODES, and how many there are. Of an attempt that has ended
    the figures are those of its end."""
    attempt = run.attempts.order_by("-number").first()
    if attempt is None:
        return [], 0
    placements = list(attempt.placements.select_related("node"))
    held: dict[int, set[int]] = defaultdict(set)
    for placement, index in HeldSlot.objects.filter(placement__in=placements).values_list("placement", "index"):
        held[placement].add(index)
    until = (attempt.ended_at or now).timestamp()
    found = []
    for one in placements[:MAX_NODES]:
        history = node_history(one.node_id, since=until - SPAN_S, until=until, points=60)
        health: Health | None = history[-1] if history else None
        seen = one.node.seen_at
        if attempt.ended_at is None:
            health = one.node.health_now or health
        else:
            seen = attempt.ended_at
        drawn = gauges(health, history, until - SPAN_S, until)[:5]
        cells = [_cell(gpu) for gpu in (health.gpus if health else None) or [] if _is_ours(gpu, held[one.pk])]
        last = one.first_rank + one.num_ranks - 1
        ranks = f"{one.first_rank} to {last}" if one.num_ranks > 1 else f"{last}"
        is_old = seen is None or (now - seen).total_seconds() > OLD_S
        found.append(Machine(one.node, ranks, drawn, cells, is_old, seen))
    return found, len(placements)


def _is_ours(gpu: GpuHealth, held: set[int]) -> bool:
    """Whether the run holds the GPU; where its slots were given back, all of the node's are shown."""
    return not held or gpu.index is None or gpu.index in held


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

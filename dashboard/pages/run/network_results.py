"""Results of a communication benchmark: a table of operations and sizes, and a matrix of pairs."""

from typing import NamedTuple

from runs.models import Run
from runs.placing.planning import RATES
from runs.records.metrics.progress import facts_of
from trainyard.contract.base import JsonObject
from trainyard.contract.facts import COMMUNICATION, CommunicationFacts, LinkFacts, TransferPoint
from trainyard.formats.figures import scaled, seconds, size, speed
from trainyard.planner import Rates

NUM_SHADES = 6
MAX_SIDE = 32  # nodes in the matrix


class Cell(NamedTuple):
    latency: str
    bandwidth: str
    shade: int  # 0 to NUM_SHADES - 1, of the fastest in the table


class ResultLine(NamedTuple):
    name: str
    cells: list[Cell | None]


class NetworkResults(NamedTuple):
    world_size: int
    sizes: list[str]
    operations: list[ResultLine]
    names: list[str]
    pairs: list[ResultLine]
    slowest: str  # a sentence about the slowest pair
    num_hidden: int  # nodes that the matrix has no room for
    compute: list[tuple[str, str]]  # what a rank does alone, while its neighbours do the same


def network_results(run: Run) -> NetworkResults | None:
    """None until rank 0 has told."""
    found = facts_of(run.pk, COMMUNICATION, CommunicationFacts).get(0)
    if found is None:
        return None
    operations = {name: points for name, points in found.operations.items() if points}
    links = found.links
    sizes = sorted({int(point.size_bytes) for points in operations.values() for point in points})
    fastest = max((point.bytes_per_s for points in operations.values() for point in points), default=0.0)
    names = sorted({end for link in links for end in (link.first, link.second)})
    return NetworkResults(
        world_size=found.world_size,
        sizes=[size(one) for one in sizes],
        operations=[ResultLine(name, _cells(points, sizes, fastest)) for name, points in operations.items()],
        names=names[:MAX_SIDE],
        pairs=_matrix(names[:MAX_SIDE], links),
        slowest=_slowest(links),
        num_hidden=max(0, len(names) - MAX_SIDE),
        compute=_compute(facts_of(run.pk, RATES, JsonObject).get(0)),
    )


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


def _cells(points: list[TransferPoint], sizes: list[int], fastest: float) -> list[Cell | None]:
    by_size = {int(point.size_bytes): point for point in points}
    return [_cell(by_size[one].seconds, by_size[one].bytes_per_s, fastest) if one in by_size else None for one in sizes]


def _cell(latency_s: float, bytes_per_s: float, fastest: float) -> Cell:
    share = bytes_per_s / fastest if fastest > 0 else 0.0
    return Cell(seconds(latency_s), speed(bytes_per_s), min(NUM_SHADES - 1, int(share * NUM_SHADES)))


def _matrix(names: list[str], links: list[LinkFacts]) -> list[ResultLine]:
    fastest = max((link.bytes_per_s for link in links), default=0.0)
    cells = {}
    for link in links:
        cell = _cell(link.latency_s, link.bytes_per_s, fastest)
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

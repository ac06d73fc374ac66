"""The whole benchmark: every operation over every size, every pair of nodes, what a node computes, and the reports."""

import csv
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import torch
import torch.distributed as dist

from trainyard.contract.facts import COMMUNICATION, CommunicationFacts, LinkFacts, TransferPoint
from trainyard.formats import figures
from trainyard.planner import Rates
from trainyard.planner.machines import Link as RateOfLink
from trainyard.spec import CommunicationSpec
from workers.training.communication import exchanges
from workers.training.communication.calibration import measure_ranks
from workers.training.communication.exchanges import NUM_WARM_UPS, LinearFit, Points, bus_factor, make_exchange, timed
from workers.training.group import RankPlace, gather_all, take_place
from workers.training.metrics import Metrics, facts_record

NUM_SWEEPS = 15
REPORT_PERIOD_S = 5.0
ALONE = ("compute", "send-receive")  # not between all ranks at once
ONE_BY_ONE = 16  # up to so many nodes each pair has the network to itself


def measure(spec: CommunicationSpec, place: RankPlace, metrics: Metrics) -> None:
    """Measure what ``task.operations`` names; report it as series, a table and facts. A collective of all ranks."""
    task = spec.task
    device = take_place(spec.resources.accelerator, place)
    nodes = gather_all(os.environ.get("TRAINYARD_NODE", f"node-{place.node_rank}"))
    sizes = exchanges.sizes_between(task.smallest_bytes, task.largest_bytes)
    is_first = place.rank == 0
    if is_first:
        print(f"{place.world_size} ranks on {len(set(nodes))} nodes, {device.type}", flush=True)
    operations = [name for name in task.operations if name not in ALONE]
    sweeps = Sweeps(operations, sizes, task.repeats, device, partial(print, flush=True) if is_first else None)
    compute = measure_ranks(device, sweeps) if "compute" in task.operations else None
    links: list[NodeLink] = []
    if "send-receive" in task.operations:
        links = measure_pairs(nodes, sizes, task.repeats, device)
        if is_first:
            log_links(links, metrics)
    found = sweeps.points()
    if is_first:
        log_points(found, metrics)
        lines = sweeps.lines()
        if links:
            lines["send-receive"] = worst(links)
        metrics.report(facts_record(COMMUNICATION, facts_of(place.world_size, nodes, found, links)))
        if compute is not None:
            metrics.report(facts_record("rates", with_links(compute, lines, place.world_size, place.local_world_size)))
        if output := os.environ.get("TRAINYARD_OUTPUT"):
            write_csv(Path(output) / "communication.csv", rows(found, links, place.world_size))
    dist.destroy_process_group()


def log_points(found: Mapping[str, Points], metrics: Metrics) -> None:
    for operation, points in found.items():
        for size, seconds in points:
            rate = size / seconds * bus_factor(operation, dist.get_world_size())
            metrics.log({f"latency/{operation}": seconds, f"bandwidth/{operation}": rate}, step=size)
            print(f"{operation:>16}  {figures.size(size):>8}  {line(seconds, rate)}", flush=True)


def worst(links: "list[NodeLink]") -> LinearFit:
    """Return the line of the slowest link: what a ring or a pipeline over all nodes waits for."""
    return min((link.fit for link in links), key=lambda one: one.bytes_per_s)


# All operations over all sizes, a few exchanges at a time: how quick they are changes from second to second.


class Sweeps:
    """Call it between whatever else takes a while, and ``points`` or ``lines`` at the end. All are collectives, the
    last two at their first call only. ``report`` gets a line every few seconds about how far it is."""

    def __init__(
        self,
        operations: Sequence[str],
        sizes: Sequence[int],
        repeats: int,
        device: torch.device,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._operations, self._sizes, self._device = operations, sizes, device
        count = self._count = min(NUM_SWEEPS, repeats)
        self._left = [repeats * (at + 1) // count - repeats * at // count for at in range(count)]
        self._gathered: list[list[list[float]]] = []  # of each rank, what it measured
        self._report, self._reported_at = report, time.monotonic()
        self._own: dict[tuple[str, int], list[float]] = {(one, size): [] for one in operations for size in sizes}

    def __call__(self) -> None:
        """Exchange everything so many times. After the last sweep it does nothing."""
        if not self._left:
            return
        repeats = self._left.pop()
        for (operation, size), seconds in self._own.items():
            seconds += timed(make_exchange(operation, size, self._device), repeats, self._device)
        if self._report and self._own and time.monotonic() - self._reported_at >= REPORT_PERIOD_S:
            self._reported_at = time.monotonic()
            self._report(f"{self._count - len(self._left)} of {self._count} sweeps over all sizes")

    def points(self) -> dict[str, Points]:
        """Return bytes and seconds by operation, the same on every rank: medians over all repeats, each of which takes
        as long as the slowest rank's."""
        while self._left:
            self()
        if not self._gathered:
            self._gathered = gather_all(list(self._own.values()))
        found: dict[str, Points] = {operation: [] for operation in self._operations}
        for (operation, size), ranks in zip(self._own, zip(*self._gathered, strict=True), strict=True):
            found[operation].append((size, median(max(times) for times in zip(*ranks, strict=True))))
        return found

    def lines(self) -> dict[str, LinearFit]:
        """Return the line of each operation through its points."""
        return {operation: exchanges.fit(points) for operation, points in self.points().items()}


# Speed of each link: every pair of nodes alone, there and back.


class NodeLink(NamedTuple):
    """Link between two nodes (between two ranks, where all are on one)."""

    first: str
    second: str
    points: Points  # bytes and seconds one way: medians

    @property
    def fit(self) -> LinearFit:
        """The line through them, with which the planner counts."""
        return exchanges.fit(self.points)


def measure_pairs(nodes: Sequence[str], sizes: Sequence[int], repeats: int, device: torch.device) -> list[NodeLink]:
    """Return the links between the first ranks of all nodes; ``nodes`` names each rank's. A collective."""
    ends = first_ranks(nodes)
    rank, found = dist.get_rank(), list[NodeLink]()
    for together in rounds(list(ends)):
        for first, second in together:
            if rank in (first, second):
                points = [(size, median(ping(first, second, size, repeats, device))) for size in sizes]
                if rank == first:
                    found.append(NodeLink(ends[first], ends[second], points))
        dist.barrier()  # nobody measures while others still do
    return [link for links in gather_all(found) for link in links]


def ping(first: int, second: int, num_bytes: int, repeats: int, device: torch.device) -> list[float]:
    """Return half the time of each message there and back, on both ends alike as far as clocks go."""
    tensor, times = torch.zeros(max(1, num_bytes // 4), device=device), list[float]()
    for _ in range(NUM_WARM_UPS + repeats):
        started = time.perf_counter()
        if dist.get_rank() == first:
            dist.send(tensor, second)
            dist.recv(tensor, second)
        else:
            dist.recv(tensor, first)
            dist.send(tensor, first)
        exchanges.settle(device)
        times.append((time.perf_counter() - started) / 2)
    return times[NUM_WARM_UPS:]


def first_ranks(nodes: Sequence[str]) -> dict[int, str]:
    """Return the first rank of each node and the node's name; on one node all its ranks, by their numbers."""
    ends = {nodes.index(name): name for name in dict.fromkeys(nodes)}
    return ends if len(ends) > 1 else {rank: f"{name} rank {rank}" for rank, name in enumerate(nodes)}


def rounds(ranks: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield all pairs: one by one where there are few, else as many at once as share no end (a round-robin)."""
    pairs = [(first, second) for at, first in enumerate(ranks) for second in ranks[at + 1 :]]
    if len(ranks) <= ONE_BY_ONE:
        yield from ([pair] for pair in pairs)
        return
    seats: list[int | None] = [*ranks, None] if len(ranks) % 2 else list(ranks)
    for _ in range(len(seats) - 1):
        sides = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        yield [(min(a, b), max(a, b)) for a, b in sides if a is not None and b is not None]
        seats = [seats[0], seats[-1], *seats[1:-1]]  # the first stays, all others move on by one


# The reports of the benchmark, in the shapes in which pages and the planner read them.

COLUMNS = ("operation", "from", "to", "bytes", "seconds", "bytes per second")
MAX_LINKS = 400  # in the facts_of, the slowest first; every one is in the series


def log_links(links: Sequence[NodeLink], metrics: Metrics) -> None:
    for link in links:
        labels = {"from": link.first, "to": link.second}
        for size, seconds in link.points:
            metrics.log({"link/latency": seconds, "link/bandwidth": size / seconds}, step=size, labels=labels)
        size, seconds = link.points[-1]
        words = f"{link.first} and {link.second}  {figures.size(size):>8}  {line(seconds, size / seconds)}"
        print(f"    send-receive  {words}", flush=True)


def facts_of(
    world: int, nodes: Sequence[str], found: Mapping[str, Points], links: Sequence[NodeLink]
) -> CommunicationFacts:
    """Return what a page shows: the operations with bytes a second on the bus, and the links."""
    slowest_first = sorted(links, key=lambda link: link.fit.bytes_per_s)[:MAX_LINKS]
    return CommunicationFacts(
        world_size=world,
        nodes=list(dict.fromkeys(nodes)),
        operations={
            operation: [
                TransferPoint(size, seconds, size / seconds * bus_factor(operation, world)) for size, seconds in points
            ]
            for operation, points in found.items()
        },
        num_links=len(links),
        links=[LinkFacts(link.first, link.second, link.fit.latency_s, link.fit.bytes_per_s) for link in slowest_first],
    )


def with_links(compute: Rates, lines: Mapping[str, LinearFit], world: int, forked: int) -> Rates:
    """Return the rates with the links that were measured; ``forked`` is the number of ranks on this node."""
    links = {
        operation: RateOfLink(world if operation != "send-receive" else 2, line.latency_s, line.bytes_per_s)
        for operation, line in lines.items()
    }
    return msgspec.structs.replace(compute, forked=forked, links=links, is_measured=True)


def rows(found: Mapping[str, Points], links: Sequence[NodeLink], world: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table, under COLUMNS."""
    for operation, points in found.items():
        for size, seconds in points:
            yield operation, "all", "all", size, seconds, size / seconds * bus_factor(operation, world)
    for link in links:
        for size, seconds in link.points:
            yield "send-receive", link.first, link.second, size, seconds, size / seconds


def write_csv(path: Path, table: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(table)


def line(seconds: float, bytes_per_s: float) -> str:
    return f"{1e6 * seconds:10.1f} us  {figures.speed(bytes_per_s):>11}"

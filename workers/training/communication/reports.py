"""The reports of the benchmark, in the shapes in which pages and the planner read them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainyard.contract.facts import CommunicationFacts, LinkFacts, TransferPoint
from trainyard.planner import Rates
from trainyard.planner.machines.rates import Link as RateOfLink
from workers.training.communication.exchanges import bus_factor
from workers.training.communication.pairs import NodeLink
from workers.training.communication.timing import LinearFit
from workers.training.measuring.progress import with_unit
from workers.training.metrics import Metrics

COLUMNS = ("operation", "from", "to", "bytes", "seconds", "bytes per second")
MAX_LINKS = 400  # in the facts, the slowest first; every one is in the series
Found = Mapping[str, Sequence[tuple[int, float]]]


def log_links(links: Sequence[NodeLink], metrics: Metrics) -> None:
    """Log every pair: its points by size, and one line in the log for each."""
    for link in links:
        labels = {"from": link.first, "to": link.second}
        for size, seconds in link.points:
            metrics.log({"link/latency": seconds, "link/bandwidth": size / seconds}, step=size, labels=labels)
        size, seconds = link.points[-1]
        words = f"{link.first} and {link.second}  {with_bytes(size):>8}  {line(seconds, size / seconds)}"
        print(f"    send-receive  {words}", flush=True)


def facts(world: int, nodes: Sequence[str], found: Found, links: Sequence[NodeLink]) -> CommunicationFacts:
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


def rows(found: Found, links: Sequence[NodeLink], world: int) -> Iterator[tuple[Any, ...]]:
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
    return f"{1e6 * seconds:10.1f} us  {with_unit(bytes_per_s):>7}B/s"


def with_bytes(num_bytes: int) -> str:
    """Return 1 KiB, 16 MiB as people say it."""
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if num_bytes >= size:
            return f"{num_bytes / size:.4g} {unit}"
    return f"{num_bytes} B"

"""The whole benchmark: every operation over every size, every pair of nodes, what a node computes, and the reports."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from trainyard.contract.facts import COMMUNICATION
from trainyard.planner import Rates
from trainyard.spec import CommunicationSpec
from workers.training.communication import reports
from workers.training.communication.calibration import measure_ranks
from workers.training.communication.exchanges import bus_factor, make_exchange
from workers.training.communication.pairs import NodeLink, measure_pairs
from workers.training.communication.timing import LinearFit, Points, fit, sizes_between, timed
from workers.training.group import process_group
from workers.training.group.agreement import gather_all
from workers.training.group.place import RankPlace, choose_device, num_threads
from workers.training.metrics import Metrics, facts_record

NUM_SWEEPS = 15
REPORT_PERIOD_S = 5.0
ALONE = ("compute", "send-receive")  # not between all ranks at once


def measure(spec: CommunicationSpec, place: RankPlace, metrics: Metrics) -> None:
    """Measure what ``task.operations`` names; report it as series, a table and facts. A collective of all ranks."""
    task = spec.task
    torch.set_num_threads(num_threads(os.environ, place))
    device = choose_device(spec.resources.accelerator, place)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    process_group.join(place, device)
    nodes = gather_all(os.environ.get("TRAINYARD_NODE", f"node-{place.node_rank}"))
    sizes = sizes_between(task.smallest_bytes, task.largest_bytes)
    is_first = place.rank == 0
    if is_first:
        print(f"{place.world_size} ranks on {len(set(nodes))} nodes, {device.type}", flush=True)
    operations = [name for name in task.operations if name not in ALONE]
    sweeps = Sweeps(operations, sizes, task.repeats, device, partial(print, flush=True) if is_first else None)
    compute: Rates | None = None
    if "compute" in task.operations:
        compute = measure_ranks(device, sweeps)
    links: list[NodeLink] = []
    if "send-receive" in task.operations:
        links = measure_pairs(nodes, sizes, task.repeats, device)
        if is_first:
            reports.log_links(links, metrics)
    found = sweeps.points()
    if is_first:
        log_points(found, metrics)
        lines = sweeps.lines()
        if links:
            lines["send-receive"] = worst(links)
        facts = reports.facts(place.world_size, nodes, found, links)
        metrics.report(facts_record(COMMUNICATION, facts))
        if compute is not None:
            rates = reports.with_links(compute, lines, place.world_size, place.local_world_size)
            metrics.report(facts_record("rates", rates))
        if output := os.environ.get("TRAINYARD_OUTPUT"):
            reports.write_csv(Path(output) / "communication.csv", reports.rows(found, links, place.world_size))
    process_group.leave()


def log_points(found: Mapping[str, Points], metrics: Metrics) -> None:
    """Log each operation's points by size, and print a line for each."""
    for operation, points in found.items():
        for size, seconds in points:
            rate = size / seconds * bus_factor(operation, dist.get_world_size())
            metrics.log({f"latency/{operation}": seconds, f"bandwidth/{operation}": rate}, step=size)
            print(f"{operation:>16}  {reports.with_bytes(size):>8}  {reports.line(seconds, rate)}", flush=True)


def worst(links: list[NodeLink]) -> LinearFit:
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
            found[operation].append((size, statistics.median(max(times) for times in zip(*ranks, strict=True))))
        return found

    def lines(self) -> dict[str, LinearFit]:
        """Return the line of each operation through its points."""
        return {operation: fit(points) for operation, points in self.points().items()}

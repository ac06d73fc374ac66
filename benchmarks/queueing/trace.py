"""Jobs of a trace, and what a live system would know of their lengths."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from statistics import quantiles

from runs.placing.spans import ALIKE, Span, span_of

MEMORY = 200  # of the newest jobs of a kind
UNKNOWN = Span(60.0, 3_600.0, 86_400.0)  # before any of the kind has ended
SLOTS = 8  # of a node


@dataclass(frozen=True)
class Job:
    number: int
    at: float  # seconds
    lasts_s: float
    nodes: int
    slots: int  # on each node
    team: str

    @property
    def kind(self) -> tuple[str, int]:
        return self.team, self.nodes * self.slots


def jobs_of(path: Path) -> list[Job]:
    """Read a trace with ``timestamp, duration, num_gpus, gpu_time, cluster`` in each line (see benchmarks' docs)."""
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    first = datetime.fromisoformat(rows[0]["timestamp"])
    found = []
    for number, row in enumerate(rows):
        width, at = int(row["num_gpus"]), (datetime.fromisoformat(row["timestamp"]) - first).total_seconds()
        nodes = max(1, width // SLOTS)
        found.append(Job(number, at, float(row["duration"]), nodes, width // nodes, row["cluster"]))
    return found


def made_up(number: int, slots: int, seed: int) -> list[Job]:
    """Return jobs of as many kinds as a cluster's, on which so many slots are busy for nine tenths of the time."""
    random, teams = Random(seed), [f"team-{place}" for place in range(8)]
    shapes = random.choices([(1, 1), (1, 2), (1, 4), (1, 8), (2, 8)], weights=(90, 4, 3, 2.5, 0.5), k=number)
    lengths = [min(3e5, random.lognormvariate(7.0, 1.8)) for _ in range(number)]
    work = sum(nodes * each * length for (nodes, each), length in zip(shapes, lengths, strict=True))
    until = work / (0.9 * slots)
    times = sorted(random.uniform(0, until) for _ in range(number))
    return [
        Job(place, at, length, *shape, random.choice(teams))
        for place, (at, shape, length) in enumerate(zip(times, shapes, lengths, strict=True))
    ]


class Past:
    """Durations of the jobs that have ended, by team and width: all that is known of one that waits."""

    def __init__(self) -> None:
        self._ended: dict[object, deque[float]] = defaultdict(lambda: deque(maxlen=MEMORY))
        self._known: dict[tuple[str, int], Span] = {}

    def add(self, job: Job) -> None:
        for kind in (job.kind, job.kind[1]):
            self._ended[kind].append(job.lasts_s)
        self._known.pop(job.kind, None)

    def of(self, job: Job) -> Span:
        if job.kind not in self._known:
            own = self._ended[job.kind]
            found = span_of(own if len(own) >= ALIKE else self._ended[job.kind[1]])
            self._known[job.kind] = found or UNKNOWN
        return self._known[job.kind]


def p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else 0.0

"""What a chart costs the server: the whole request for one series, or for fifty runs, in the binary form.

Server time is that of the whole request in-process, by Django's test client: sign-in by token, permission, reading,
writing the answer; no socket. Windows are at random places and of every zoom, from all points down to 1,500 of them.
The limit beside it is reading a million points of the same store raw, from the database into columns, once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks import goals
from benchmarks.compare import Answers, measure
from benchmarks.metrics_stack import MetricsStack, metrics_stack
from benchmarks.stack import percentile
from benchmarks.table import Goal, Row, middle, scaled, spread_of

if TYPE_CHECKING:
    from runs.models import Run

PIXELS = 1_500
NAME = "train/metric_0"
SHORT, LONG = 1_000_000, 100_000_000
REQUESTS = 200
MANY_RUNS, MANY_POINTS, MANY_REQUESTS = 50, 100_000, 15
PEER_STEPS = {"trackio": 100_000}
SEED = 11
TENTH_S = 0.1  # between two points, see benchmarks.load.generate


def rows() -> list[Row]:
    peer = measure("ingest", PEER_STEPS)
    for known in peer.found.values():
        known["read_ms"] = 1_000 * known["read_s"]
    with metrics_stack() as place:
        from benchmarks.load.prepare import fill

        short, long = place.make_run("short"), place.make_run("long")
        fill(short, SHORT)
        raw_ms = read_raw([short])
        found = zooms(place, short, SHORT, goals.CHART_SHORT, raw_ms, peer)
        many = [place.make_run(f"many-{number}") for number in range(scaled(MANY_RUNS, 2))]
        for run in many:
            fill(run, MANY_POINTS)
        together = one_request(place, many, peer)
        num_long = scaled(LONG, SHORT)
        fill(long, num_long)
        return [*found, *zooms(place, long, num_long, goals.CHART_LONG, raw_ms, peer), together]


def zooms(place: MetricsStack, run: Run, num_points: int, wanted: Goal, raw_ms: float, peer: Answers) -> list[Row]:
    return [zoom(place, run, num_points, x, wanted, raw_ms, peer) for x in ("step", "time")]


def zoom(place: MetricsStack, run: Run, num_points: int, x: str, wanted: Goal, raw_ms: float, peer: Answers) -> Row:
    client = place.client()
    url = f"/api/v1/runs/{run.pk}/series/data"
    taken, cpu = [], []
    for number, (start, end) in enumerate(windows(num_points, scaled(REQUESTS, 40))):
        asked: dict[str, Any] = {"name": NAME, "points": PIXELS, "format": "columns", "x": x}
        asked |= {"from": start, "to": end} if x == "step" else {"from": wall(start), "to": wall(end)}
        began, cpu_began = time.perf_counter(), time.process_time()
        answer = client.get(url, asked)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        assert answer.status_code == 200 and len(answer.content) > PIXELS, answer.content[:500]
        if number >= 5:  # the first ones import and open
            taken.append(1_000 * seconds)
            cpu.append(1_000 * cpu_seconds)
    return Row(
        f"chart of {PIXELS:,} pixels over {num_points:,} points, x by {x}, server time p95", percentile(taken, 0.95),
        "ms", raw_ms, "reading 1,000,000 points raw", goal=wanted, spread=spread_of(taken),
        others={"median": middle(taken), "CPU time p95": percentile(cpu, 0.95), **peers_read(peer)}, note=peer.note,
    )  # fmt: skip


def windows(num_points: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield first and last steps: all of it, then halves, quarters and so on down to PIXELS points, in turns."""
    place = random.Random(SEED)
    spans = [num_points]
    while spans[-1] > PIXELS:
        spans.append(max(PIXELS, spans[-1] // 2))
    for number in range(count):
        span = spans[number % len(spans)]
        first = place.randint(1, num_points - span + 1)
        yield first, first + span - 1


def wall(step: int) -> float:
    from benchmarks.load.generate import START_S

    return START_S + TENTH_S * step


def one_request(place: MetricsStack, runs: list[Run], peer: Answers) -> Row:
    """All runs in one request of a chart's width each."""
    client = place.client()
    asked: dict[str, Any] = {"run": [run.pk for run in runs], "name": NAME, "points": PIXELS, "format": "columns"}
    taken = []
    for number in range(scaled(MANY_REQUESTS, 4) + 1):
        began = time.perf_counter()
        answer = client.get("/api/v1/series/data", asked)
        seconds = time.perf_counter() - began
        assert answer.status_code == 200, answer.content[:500]
        if number:
            taken.append(1_000 * seconds)
    return Row(
        f"{len(runs)} runs of {MANY_POINTS:,} points in one request, server time", middle(taken), "ms", read_raw(runs),
        "reading all of their points raw", goal=goals.CHART_MANY, spread=spread_of(taken),
    )  # fmt: skip


def read_raw(runs: list[Run]) -> float:
    """Return the milliseconds in which all points of NAME are read from the database into columns; the best of 3."""
    from runs.records.points.read import raw

    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        num_points = sum(curve.columns["value"].size for run in runs for curve in raw(run.pk, [NAME]))
        best = min(best, 1_000 * (time.perf_counter() - began))
    assert num_points in (SHORT, MANY_POINTS * len(runs)), num_points
    return best


def peers_read(peer: Answers) -> dict[str, float | None]:
    counts = {name: found["count"] for name, found in peer.found.items()}
    return {f"Trackio, {counts['trackio']:,} points": peer.found["trackio"]["read_ms"]} if counts else {}

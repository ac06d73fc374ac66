"""Two thousand series that get a point a second each: what the ingest process costs while nothing hurries."""

from __future__ import annotations

import time

import psutil

from benchmarks import goals
from benchmarks.load.fill import Plan
from benchmarks.load.flow import filling, program, senders
from benchmarks.metrics_stack import MetricsStack, ProcessUsage, metrics_stack, wait_for_line
from benchmarks.table import Row, scaled

NUM_RUNS, NUM_SERIES = 20, 100
SECONDS = 30
WARM_UP_S = 3  # the first seconds make the series' rows


def rows() -> list[Row]:
    seconds = scaled(SECONDS, 5)
    with metrics_stack() as place:
        ours, pss = share_of_ingest(place, seconds)
        limit = share_of_prototype(place, max(5, seconds // 3))
    what = f"{NUM_RUNS * NUM_SERIES:,} series at a point a second each"
    return [
        Row(f"{what}: CPU of the ingest process", 100 * ours, "% of a core", 100 * limit, "a bare prototype",
            goal=goals.TRICKLE, note=f"{NUM_RUNS} runs, over {seconds} s; memory {pss / 1e6:.0f} MB"),
    ]  # fmt: skip


def share_of_ingest(place: MetricsStack, seconds: int) -> tuple[float, int]:
    """Return the share of a core that the process takes, and its memory in bytes."""
    with filling(plan_of(place, seconds)) as filler, place.ingest() as process:
        filler.begin()
        time.sleep(WARM_UP_S)
        watch = ProcessUsage(process)
        time.sleep(seconds)
        watch.look()
        share = watch.used_cpu_s / seconds
        filler.wait_until_sent()
        return share, watch.pss


def share_of_prototype(place: MetricsStack, seconds: int) -> float:
    path = str(place.home / "prototype.sqlite3")
    with filling(plan_of(place, seconds)) as filler:
        words = ("store", str(place.socket), path, str(filler.num_entries))
        with program("prototype", *words) as process:
            wait_for_line(process, "ready")
            filler.begin()
            time.sleep(WARM_UP_S)
            watch = ProcessUsage(psutil.Process(process.pid))
            time.sleep(seconds)
            watch.look()
            share = watch.used_cpu_s / seconds
            filler.wait_until_sent()
            wait_for_line(process, "done")
            return share


def plan_of(place: MetricsStack, seconds: int) -> Plan:
    num_rows = WARM_UP_S + seconds + 1
    return Plan(str(place.socket), senders(place, NUM_RUNS), NUM_SERIES, num_rows, rows_per_frame=1, every_s=1.0)

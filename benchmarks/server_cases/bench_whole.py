"""The whole way, ours and the peers': from a script's first log() until the last of its points can be read.

Ours is a run of a whole Trainyard: rank, spool, supervisor, stream, ingest, database, REST. The peers log into what
they are at their best on one machine. All are given the same numbers by the same generator (benchmarks/peers/drive.py);
slow peers get fewer steps, since what counts is the rate. Afterwards one series is read as for a chart, and what lies
on the disk is counted.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import goals
from benchmarks.compare import STEPS, Answers, measure
from benchmarks.load.compaction import wait_for_compaction
from benchmarks.peers.drive import size_of_sqlite
from benchmarks.stack import Stack, running
from benchmarks.table import Row, middle, scaled, spread_of
from trainyard.bundle import pack

BENCHMARKS = Path(__file__).parents[1]
NUM_STEPS = 200_000
NUM_SERIES = 10
REPEATS = 3
READS = 9
SCRIPT = """
import sys
import trainyard
from benchmarks.peers.drive import NAMES, noisy_rows

rows = noisy_rows(int(sys.argv[1]))
run = trainyard.init()
for step, row in enumerate(rows, 1):
    run.log(dict(zip(NAMES, row, strict=True)), step=step)
run.finish()
"""


class Ours(NamedTuple):
    speeds: list[float]  # points a second, of each run
    reads_ms: list[float]
    bytes_per_point: float
    is_compacted: bool


def rows() -> list[Row]:
    with running(nodes=1) as stack:
        ours = measure_ours(stack)
    peers = measure("ingest", STEPS)
    for found in peers.found.values():
        found["speed"] = found["points"] / found["seconds"]
        if "read_s" in found:
            found["read_ms"] = found["read_s"] * 1_000
    return table_of(ours, peers)


def measure_ours(stack: Stack) -> Ours:
    num_steps = scaled(NUM_STEPS, 1_000)
    digest = bundle(stack)
    metrics = stack.home / "metrics.sqlite3"
    warm_up = launch(stack, digest, 100)
    stack.wait(warm_up)
    speeds, reads = [], []
    empty_bytes = size_of_sqlite(metrics)
    repeats = scaled(REPEATS)
    for _ in range(repeats):
        run_id = launch(stack, digest, num_steps)
        speeds.append(num_steps * NUM_SERIES / seconds_until_readable(stack, run_id, num_steps))
        stack.wait(run_id)
        for _ in range(READS):
            began = time.perf_counter()
            answer = stack.get(f"/runs/{run_id}/series/data", name="train/metric_0", points=1_500)
            reads.append(1_000 * (time.perf_counter() - began))
        assert answer["series"]
    is_compacted = wait_for_compaction(metrics)
    stored = size_of_sqlite(metrics) - empty_bytes
    return Ours(speeds, reads, stored / (repeats * num_steps * NUM_SERIES), is_compacted)


def bundle(stack: Stack) -> str:
    """Store the script, and what it shares with the peers' scripts, and return the digest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "whole.py").write_text(SCRIPT)
        for shared in ("__init__.py", "load/__init__.py", "load/calls.py", "peers/__init__.py", "peers/drive.py"):
            target = folder / "benchmarks" / shared
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(BENCHMARKS / shared, target)
        return stack.bundle(pack(folder)[0])


def launch(stack: Stack, digest: str, num_steps: int) -> str:
    task = {"script": "whole.py", "arguments": [str(num_steps)], "code": {"sha256": digest}}
    return stack.submit({"name": "whole", "resources": {"nodes": 1}, "task": task})


def seconds_until_readable(stack: Stack, run_id: str, num_steps: int) -> float:
    """From the time of the first point, which is that of the first log call, until all are counted."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        items = stack.get(f"/runs/{run_id}/series")["items"]
        ended_at = time.time()
        counts = [item["count"] for item in items if item["name"].startswith("train/metric_")]
        if len(counts) == NUM_SERIES and min(counts) == num_steps:
            params = {"name": "train/metric_0", "from": 1, "to": 1}
            first = stack.get(f"/runs/{run_id}/series/data", **params)["series"][0]
            return float(ended_at - first["time"][0])
        time.sleep(0.02)
    raise SystemExit(f"not all points of {run_id} could be read after two minutes")


def table_of(ours: Ours, peers: Answers) -> list[Row]:
    steps = ", ".join(f"{found['count']:,} {name}" for name, found in peers.found.items())
    note = "; ".join(filter(None, [f"steps of the peers: {steps}", peers.note]))
    fastest, speed = peers.best("speed", least=False)
    reader, read = peers.best("read_ms")
    smallest, stored = peers.best("bytes_per_point")
    points = ", ".join(
        f"{found['read_points']:,} {name}" for name, found in peers.found.items() if "read_points" in found
    )
    return [
        Row(f"first log() until all is readable, {scaled(NUM_STEPS, 1_000):,} steps of 10 metrics", middle(ours.speeds),
            "points/s", speed, fastest, is_less_better=False, goal=goals.WHOLE_WAY,
            spread=spread_of(ours.speeds), others=peers.others("speed", fastest), note=note),
        Row("one series of that run read for a chart of 1,500 pixels, over HTTP", middle(ours.reads_ms), "ms", read,
            reader, spread=spread_of(ours.reads_ms), others=peers.others("read_ms", reader),
            note=f"points that came: {points}; ours are exact buckets, theirs samples"),
        Row("stored for that run, all that is in the file", ours.bytes_per_point, "bytes/point", stored, smallest,
            others=peers.others("bytes_per_point", smallest), note="" if ours.is_compacted else "not yet compacted"),
    ]  # fmt: skip

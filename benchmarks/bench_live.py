"""From log() in a rank to the browser's data: four runs of synthetic ranks at ten steps a second, one socket each.

The limit to compare with is one hop through the server's pub/sub alone, measured in the same run.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from benchmarks import goals
from benchmarks.stack import Stack, percentile, running, valkey
from benchmarks.table import Row
from trainyard.bundle import pack

NUM_RUNS = 4
SECONDS = 20
SCRIPT = f"""
import time
import trainyard

run = trainyard.init()
begin = time.time()
for step in range({SECONDS} * 10):
    time.sleep(max(0.0, begin + step / 10 - time.time()))
    run.log({{f"train/metric_{{number}}": step * 0.1 + number for number in range(10)}}, step=step)
run.finish()
"""


def specs(stack: Stack) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "synthetic.py").write_text(SCRIPT)
        digest = stack.bundle(pack(Path(folder))[0])
    return [
        {
            "name": f"synthetic-{number}",
            "resources": {"nodes": 1},
            "task": {"script": "synthetic.py", "code": {"sha256": digest}},
        }
        for number in range(NUM_RUNS)
    ]


async def listen(stack: Stack, run_id: str, latencies: list[float], rest: list[float]) -> int:
    """Collect the age of each point as it arrives; return how many points of the run came."""
    num_points = 0
    url = stack.url.replace("http", "ws", 1) + f"/ws/runs/{run_id}/?since=0"
    async with connect(url, additional_headers={"Authorization": f"Bearer {stack.token}"}, origin=stack.url) as socket:
        while True:
            try:
                message = json.loads(await asyncio.wait_for(socket.recv(), timeout=10))
            except TimeoutError:
                return num_points
            now = time.time()
            if message["type"] == "points":
                for series in message["series"]:
                    ages = latencies if series["name"].startswith("train/") else rest
                    ages += [now - at for at in series["time"]]
                    num_points += len(series["step"]) if series["name"].startswith("train/") else 0
            if num_points >= SECONDS * 10 * 10:
                return num_points


async def measure(stack: Stack) -> tuple[list[float], int]:
    latencies: list[float] = []
    run_ids = [stack.submit(spec) for spec in specs(stack)]
    counts = await asyncio.gather(*(listen(stack, run_id, latencies, []) for run_id in run_ids))
    return latencies, sum(counts)


def one_hop() -> list[float]:
    """Return the seconds that a message takes from one connection to another through the server's own pub/sub."""
    with tempfile.TemporaryDirectory(prefix="ty-", dir="/tmp") as folder, valkey(Path(folder)) as client:
        listener = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        listener.subscribe("hop")
        listener.get_message(timeout=1)
        taken = []
        for _ in range(1_000):
            started = time.perf_counter()
            client.publish("hop", b"x" * 1_000)
            while listener.get_message(timeout=1) is None:
                pass
            taken.append(time.perf_counter() - started)
        return taken


def rows() -> list[Row]:
    with running(nodes=NUM_RUNS) as stack:
        latencies, num_points = asyncio.run(measure(stack))
    hops = one_hop()
    expected = NUM_RUNS * SECONDS * 10 * 10
    note = f"{num_points:,} of {expected:,} points arrived"
    what = f"log() to the browser's data, {NUM_RUNS} runs at 10 steps/s"
    against = "one hop through Valkey's pub/sub"
    return [
        Row(f"{what}, p50", 1e3 * percentile(latencies, 0.5), "ms", 1e3 * percentile(hops, 0.5), against,
            goal=goals.LIVE_MEDIAN, note=note),
        Row(f"{what}, p99", 1e3 * percentile(latencies, 0.99), "ms", 1e3 * percentile(hops, 0.99), against,
            goal=goals.LIVE_P99, spread=(1e3 * min(latencies), 1e3 * max(latencies)), note=note),
    ]  # fmt: skip

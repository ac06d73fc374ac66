"""From log() in a rank to the browser's data: twenty runs of synthetic ranks at ten steps a second, one socket each.

All of them begin to step when all of them run and are watched, each a little later than the one before. The limit to
compare with is one hop through the server's pub/sub alone, measured while they step.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

import redis
from websockets.asyncio.client import connect
from websockets.typing import Origin

from benchmarks import goals
from benchmarks.stack import Stack, node_of, percentile, running
from benchmarks.table import Row, scaled
from trainyard.bundle import pack
from trainyard.contract.base import JsonObject

NUM_RUNS, NUM_METRICS = 20, 10
HZ, SECONDS = 10, 20
HOP_EVERY_S = 0.02
READY_S = 60.0
# Ten steps a second until it is over; the rank waits for the word, since twenty starts at once are another matter.
SCRIPT = f"""
import sys, time
from pathlib import Path
import trainyard

number, num_runs, num_steps, hz, word = *map(int, sys.argv[1:5]), Path(sys.argv[5])
run = trainyard.init()
while not word.exists():
    time.sleep(0.02)
begin = float(word.read_text()) + number / num_runs / hz
for step in range(num_steps):
    time.sleep(max(0.0, begin + step / hz - time.time()))
    run.log({{f"train/metric_{{metric}}": step * 0.1 + metric for metric in range({NUM_METRICS})}}, step=step)
run.finish()
"""


def rows() -> list[Row]:
    # One node with a slot for each: the ranks do nearly nothing, and twenty nodes would do more than they.
    with running(nodes=0) as stack, node_of(stack, NUM_RUNS), tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # ranks are another Unix user and read the word in it
        latencies, hops, num_points = asyncio.run(measure(stack, Path(folder) / "go", scaled(SECONDS * HZ, HZ)))
    note = f"{num_points:,} of {NUM_RUNS * scaled(SECONDS * HZ, HZ) * NUM_METRICS:,} points arrived"
    what = f"log() to the browser's data, {NUM_RUNS} runs at {HZ} steps/s"
    against = "one hop through Valkey's pub/sub"
    return [
        Row(f"{what}, p50", 1e3 * percentile(latencies, 0.5), "ms", 1e3 * percentile(hops, 0.5), against,
            goal=goals.LIVE_MEDIAN, note=note),
        Row(f"{what}, p99", 1e3 * percentile(latencies, 0.99), "ms", 1e3 * percentile(hops, 0.99), against,
            goal=goals.LIVE_P99, spread=(1e3 * min(latencies), 1e3 * max(latencies)), note=note),
    ]  # fmt: skip


async def measure(stack: Stack, word: Path, num_steps: int) -> tuple[list[float], list[float], int]:
    """Return the age of each point when it came, the time of each hop, and how many points came."""
    latencies: list[float] = []
    run_ids = [stack.submit(spec) for spec in specs(stack, word, num_steps)]
    opened = [asyncio.Event() for _ in run_ids]
    listeners = [
        asyncio.create_task(listen(stack, run_id, num_steps * NUM_METRICS, latencies, is_open))
        for run_id, is_open in zip(run_ids, opened, strict=True)
    ]
    await asyncio.gather(*(is_open.wait() for is_open in opened))
    await asyncio.to_thread(wait_until_running, stack, run_ids)
    temporary = word.with_suffix(".new")
    temporary.write_text(str(time.time() + 1.0))
    temporary.rename(word)
    hops = asyncio.create_task(asyncio.to_thread(one_hop, stack, num_steps / HZ))
    counts = await asyncio.gather(*listeners)
    return latencies, await hops, sum(counts)


def specs(stack: Stack, word: Path, num_steps: int) -> list[JsonObject]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "synthetic.py").write_text(SCRIPT)
        digest = stack.bundle(pack(Path(folder))[0])
    return [
        {
            "name": f"synthetic-{number}",
            "resources": {"nodes": 1, "processes_per_node": 1},
            "task": {
                "script": "synthetic.py",
                "arguments": [*map(str, (number, NUM_RUNS, num_steps, HZ)), str(word)],
                "code": {"sha256": digest},
            },
        }
        for number in range(NUM_RUNS)
    ]


def wait_until_running(stack: Stack, run_ids: list[str]) -> None:
    deadline = time.monotonic() + READY_S
    waiting = run_ids
    while waiting := [run_id for run_id in waiting if stack.get(f"/runs/{run_id}")["status"] != "RUNNING"]:
        if time.monotonic() > deadline:
            raise SystemExit(f"not running after {READY_S:g} s: {[stack.get(f'/runs/{one}') for one in waiting]}")
        time.sleep(0.5)


async def listen(stack: Stack, run_id: str, expected: int, latencies: list[float], is_open: asyncio.Event) -> int:
    """Collect the age of each point as it arrives; return how many points of the run came."""
    num_points = 0
    url = stack.url.replace("http", "ws", 1) + f"/ws/runs/{run_id}/?since=0"
    headers = {"Authorization": f"Bearer {stack.token}"}
    async with connect(url, additional_headers=headers, origin=Origin(stack.url)) as socket:
        is_open.set()
        while num_points < expected:
            try:
                text = await asyncio.wait_for(socket.recv(), timeout=READY_S)
            except TimeoutError:
                break
            now, message = time.time(), json.loads(text)
            if message["type"] == "points":
                for series in message["series"]:
                    if series["name"].startswith("train/"):
                        latencies += [now - at for at in series["time"]]
                        num_points += len(series["step"])
    return num_points


def one_hop(stack: Stack, seconds: float) -> list[float]:
    """Return the seconds that each message takes from one connection to another through the server's own pub/sub."""
    from dashboard.home import socket_path

    taken = []
    with redis.Redis(unix_socket_path=str(socket_path(stack.home))) as client:
        listener = client.pubsub(ignore_subscribe_messages=True)
        listener.subscribe("hop")
        listener.get_message(timeout=1)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            started = time.perf_counter()
            client.publish("hop", b"x" * 1_000)
            while listener.get_message(timeout=1) is None:
                pass
            taken.append(time.perf_counter() - started)
            time.sleep(HOP_EVERY_S)
    return taken

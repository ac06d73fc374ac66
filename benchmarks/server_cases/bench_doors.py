"""What moving in costs: event files read for import, MLflow's batches and searches, and whole histories as a frame.

TensorBoard's own ``EventAccumulator`` reads the same folder. MLflow's server and ours are sent the same batches, and
MLflow's client reads them back. Searches over 100,000 runs are whole requests in-process, without a socket.
"""

from __future__ import annotations

import json
import os
import random
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import compare, goals
from benchmarks.metrics_stack import metrics_stack
from benchmarks.stack import Stack, running
from benchmarks.table import Row, middle, scaled, spread_of
from trainyard.contract.records import Points
from trainyard.doors.gathering import Gathering
from trainyard.doors.tensorboard.event_files import record
from trainyard.doors.tensorboard.importing import foreign_runs

POINTS, RUNS = 1_000_000, 100_000
BATCHES = 60  # of 1,000 metrics
ROUNDS = 5
NUM_TAGS = 10
SEARCHES: dict[str, dict[str, Any]] = {
    "the newest 100": {"max_results": 100},
    "100 by a parameter": {"max_results": 100, "filter": "params.width = '64'"},
    "the newest 1,000": {"max_results": 1_000},
}


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder, running(nodes=1) as stack:
        found = [event_files(Path(folder)), *mlflow_client(stack)]
    with metrics_stack() as place:
        found.append(searches(place))
    return found


def event_files(folder: Path) -> Row:
    num_points = scaled(POINTS)
    path = folder / "events.out.tfevents.1700000000.bench"
    path.write_bytes(b"".join(events(num_points)))
    times = [seconds(lambda: read(folder, num_points)) for _ in range(ROUNDS)]
    with variables(BENCH_EVENTS=str(folder)):
        peer = compare.measure("doors", {"tensorboard": POINTS})
    path.unlink()
    return Row(
        f"event file of {num_points:,} points of {NUM_TAGS} tags read for import", middle(times), "s",
        peer.found.get("tensorboard", {}).get("seconds"), "TensorBoard's EventAccumulator",
        goal=goals.DOOR_EVENTS, spread=spread_of(times), note=peer.note,
    )  # fmt: skip


def events(num_points: int) -> Iterator[bytes]:
    """Yield records as PyTorch's writer makes them: one scalar each."""
    values = random.Random(7)
    tags = [f"train/metric_{tag}".encode() for tag in range(NUM_TAGS)]
    for place in range(num_points):
        tag = tags[place % NUM_TAGS]
        value = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", values.random())
        summary = b"\x0a" + bytes([len(value)]) + value
        at, step = struct.pack("<d", 1.7e9 + place / 100), varint(place // NUM_TAGS)
        yield record(b"\x09" + at + b"\x10" + step + b"\x2a" + bytes([len(summary)]) + summary)


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def read(folder: Path, num_points: int) -> None:
    [run] = foreign_runs(folder)
    gathering, found = Gathering(), 0
    for file in run.files:
        for one in file.records(gathering, 0, file.end):
            assert isinstance(one, Points)
            found += sum(len(group.steps) // 8 for group in one.groups)
    assert found == num_points and not gathering.refused


def mlflow_client(stack: Stack) -> list[Row]:
    """Put both servers through the same, then read a history as a frame."""
    num_points, count = scaled(POINTS, 20_000), scaled(BATCHES, 5)
    theirs = compare.measure("doors", {"mlflow": BATCHES})
    with variables(BENCH_MLFLOW=f"{stack.url}/mlflow", MLFLOW_TRACKING_TOKEN=stack.token):
        ours = compare.measure("doors", {"mlflow": BATCHES})
    mine, other = (one.found.get("mlflow", {}) for one in (ours, theirs))
    found = [
        Row(f"MLflow's log-batch of 1,000 metrics {what}: a request, middle of {count}", mine.get(key), "ms",
            other.get(key), "MLflow's server", goal=goals.DOOR_BATCH,
            others={"ours, the last ten": mine.get(f"{key}_last"), "theirs, the last ten": other.get(f"{key}_last")},
            note=theirs.note or ours.note)
        for key, what in (("with_steps", "with steps"), ("without_steps", "without steps"))
    ]  # fmt: skip
    times = history(stack, num_points)
    rate = other.get("history_points", 0) / other["history_s"] if other.get("history_s") else None
    found.append(
        Row(f"history of {num_points:,} points as a frame of pandas", num_points / middle(times), "points/s", rate,
            "MLflow", is_less_better=False, goal=goals.DOOR_HISTORY,
            spread=spread_of([num_points / one for one in times]),
            note=f"MLflow's of {other.get('history_points', 0):,.0f} points; W&B offline has no reader")
    )  # fmt: skip
    return found


def history(stack: Stack, num_points: int) -> list[float]:
    from benchmarks.load.planting import START_S, Writer, plant
    from trainyard.rest.api import Api

    writer, height = Writer(), num_points // NUM_TAGS
    steps = np.arange(height)
    values = np.random.default_rng(7).random((height, NUM_TAGS))
    names = [f"metric_{tag}" for tag in range(NUM_TAGS)]
    frames = [writer.begin(), *writer.points(names, steps, START_S + steps / 10, values), writer.end()]
    with variables(TRAINYARD_URL=stack.url, TRAINYARD_TOKEN=stack.token):
        import httpx

        http = httpx.Client(
            base_url=f"{stack.url}/api/v1", headers={"Authorization": f"Bearer {stack.token}"}, timeout=60
        )
        run = Api().run(plant(http, "history", frames, [writer]))

        def whole() -> None:
            assert run.history(names).shape == (height, NUM_TAGS + 2)

        whole()  # the first one imports
        return [seconds(whole) for _ in range(ROUNDS)]


def searches(place: Any) -> Row:
    from benchmarks.load import crowd

    num_runs = scaled(RUNS, 1_000)
    client = place.client()
    few = took(client, SEARCHES["the newest 100"])  # imports and opens
    crowd.fill(num_runs)
    times = {what: took(client, asked) for what, asked in SEARCHES.items()}
    found = {what: middle(one) for what, one in times.items()}
    return Row(
        f"MLflow's search over {num_runs:,} runs: the newest 100", found["the newest 100"], "ms", middle(few),
        "over none", goal=goals.DOOR_SEARCH, spread=spread_of(times["the newest 100"]),
        others={what: one for what, one in found.items() if what != "the newest 100"},
    )  # fmt: skip


def took(client: Any, asked: dict[str, Any]) -> list[float]:
    def search() -> None:
        while True:
            answer = client.post(
                "/mlflow/api/2.0/mlflow/runs/search", json.dumps(asked), content_type="application/json"
            )
            if answer.status_code != 503:  # a column is being made
                break
            time.sleep(0.1)
        assert answer.status_code == 200, answer.content[:500]

    search()
    return [1_000 * seconds(search) for _ in range(ROUNDS)]


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@contextmanager
def variables(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

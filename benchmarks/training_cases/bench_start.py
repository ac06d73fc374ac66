"""From the request to the end of the first optimizer step, beside a cold torchrun of the same recipe module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import goals
from benchmarks.stack import Stack, free_port, running
from benchmarks.table import Row, middle, scaled, spread_of
from trainyard.contract.base import SpecDocument
from trainyard.spec import parse_spec
from trainyard.spooling.writer import read_frames

REPEATS = 5
SPEC = {
    "name": "first-step",
    "resources": {"nodes": 2, "processes_per_node": 1},
    "task": {
        "recipe": "language-model",
        "model": {"layers": 2, "width": 64, "heads": 4, "context": 64},
        "data": {"source": "python-stdlib"},
    },
    "train": {"steps": 5, "batch_size": 8, "warmup_steps": 1, "validate_every_steps": 5},
}


def warm_start(stack: Stack) -> float:
    """Return the seconds from the POST to the rank's timestamp of the end of its first step."""
    asked_at = time.time()
    run_id = stack.submit(SPEC)
    stack.wait(run_id)
    return stack.column(run_id, "train/loss", "time")[0] - asked_at


def cold_torchrun(folder: Path, spec: SpecDocument) -> float:
    """Return the same for `torchrun --nproc-per-node 2 -m benchmarks.cold_start`, without anything warm."""
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    spool = folder / "spool"
    environment = {
        **os.environ,
        "TRAINYARD_SPOOL": str(spool),
        "TRAINYARD_OUTPUT": str(folder / "output"),
        "OMP_NUM_THREADS": "1",
    }
    asked_at = time.time()
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()),
         "-m", "benchmarks.cold_start", str(path)],
        env=environment, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return min(first_loss_times(spool)) - asked_at


def first_loss_times(spool: Path) -> list[float]:
    times = []
    for path in spool.glob("*.spool"):
        frames, _ = read_frames(path, 0)
        for frame in frames:
            for _labels, names, steps, at, _values in frame.payload.get("g", []):
                if "train/loss" in names and np.frombuffer(steps, "<i8")[0] == 1:
                    times.append(float(np.frombuffer(at, "<f8")[0]))
    return times


def rows() -> list[Row]:
    resolved = parse_spec(SPEC).resolved()
    warm: list[float] = []
    cold: list[float] = []
    with running() as stack:
        warm_start(stack)  # the first one packs the text that all others map
        for _ in range(scaled(REPEATS)):
            warm.append(warm_start(stack))
            with tempfile.TemporaryDirectory() as folder:
                cold.append(cold_torchrun(Path(folder), resolved))
    what = "request to the end of the first step, 2 nodes"
    return [Row(what, middle(warm), "s", middle(cold), "torchrun, cold", goal=goals.START, spread=spread_of(warm))]

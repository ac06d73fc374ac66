"""What it costs each step that its trace might be asked for, beside the bare question whether a file is there."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import goals
from benchmarks.table import Row, middle, scaled, spread_of
from trainyard.contract.records import Checkpoint, Facts
from workers.training.measuring.tracing import Tracing

STEPS = 5_000
ROUNDS = 20  # of ours and of the bare question, in turns


class Nobody:
    def report(self, record: Checkpoint | Facts) -> None:
        raise AssertionError("nothing was asked for")


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        asked = str(Path(folder) / "trace.json")
        tracing = Tracing(asked, folder, 0, torch.device("cpu"), Nobody())
        ours, bare = [], []
        for _ in range(ROUNDS):
            ours.append(microseconds(lambda step: _look(tracing, step)))
            bare.append(microseconds(lambda step: os.path.exists(asked)))  # noqa: PTH110  # a Path costs twice as much
    return [
        Row("a step that nobody asked a trace of, what looking costs", middle(ours), "us", middle(bare),
            "asking whether a file is there", goal=goals.TRACE_LOOK, spread=spread_of(ours))
    ]  # fmt: skip


def _look(tracing: Tracing, step: int) -> None:
    tracing.before(step)
    tracing.after(step)


def microseconds(do: Callable[[int], object]) -> float:
    num_steps = scaled(STEPS)
    began = time.perf_counter()
    for step in range(num_steps):
        do(step)
    return (time.perf_counter() - began) / num_steps * 1e6

"""What one log call costs the training loop, beside the same call of the peers and JSON lines appended to a file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import trainyard
from benchmarks import goals
from benchmarks.compare import CALLS, Answers, measure
from benchmarks.load.calls import METRICS, Costs, calls, summary
from benchmarks.table import Row, scaled

NUM_CALLS = 20_000
ROUNDS = 7  # of ours and of plain lines in turns: a clock that boosts for a moment meets both


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        os.environ["TRAINYARD_SPOOL"] = folder
        run = trainyard.init()
        ours: list[float] = []
        lines: list[float] = []
        with (Path(folder) / "lines.jsonl").open("w") as file:
            for _ in range(ROUNDS):
                ours += calls(scaled(NUM_CALLS), lambda step: run.log(METRICS, step=step))
                lines += calls(scaled(NUM_CALLS), lambda step: print(json.dumps({"step": step, **METRICS}), file=file))
        run.finish()
    return table_of(summary(ours), summary(lines), measure("cost", CALLS))


def table_of(ours: Costs, lines: Costs, peers: Answers) -> list[Row]:
    found = []
    for figure, key, mine, theirs, goal in (
        ("median", "median", ours.median, lines.median, goals.LOG_MEDIAN),
        ("p99", "p99", ours.p99, lines.p99, goals.LOG_P99),
    ):
        against, best = peers.best(key)
        others = {**peers.others(key, against), "JSON lines in a buffered file": theirs}
        spread = ours.quartiles if key == "median" else None
        found.append(
            Row(f"one log call of 10 metrics, {figure}", mine, "us", best, against, goal=goal,
                spread=spread, others=others, note=peers.note)
        )  # fmt: skip
    return found

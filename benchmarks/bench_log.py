"""What one log call costs the training loop, beside the same call of the peers and JSON lines appended to a file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import trainyard
from benchmarks.calls import METRICS, Costs, costs
from benchmarks.table import AT_MOST, Goal, Row, scaled

CALLS = 20_000


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        os.environ["TRAINYARD_SPOOL"] = folder
        run = trainyard.init()
        ours = costs(scaled(CALLS), lambda step: run.log(METRICS, step=step))
        run.finish()
        with (Path(folder) / "lines.jsonl").open("w") as file:
            lines = costs(scaled(CALLS), lambda step: print(json.dumps({"step": step, **METRICS}), file=file))
    return table_of(ours, lines)


def table_of(ours: Costs, lines: Costs) -> list[Row]:
    what = "one log call of 10 metrics"
    return [
        Row(f"{what}, median", ours.median, "us", lines.median, "JSON lines in a buffered file",
            goal=Goal(AT_MOST, 3), spread=ours.quartiles),
        Row(f"{what}, p99", ours.p99, "us", lines.p99, "JSON lines in a buffered file", goal=Goal(AT_MOST, 20)),
    ]  # fmt: skip

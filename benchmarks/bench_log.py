"""What one log call costs the training loop, beside the same numbers appended to a file as JSON lines."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trainyard
from benchmarks.stack import machine, percentile

STEPS = 20_000
PAUSE_EVERY = 100  # a training loop does something between its calls: let the flusher run as it would there
METRICS = {f"train/metric_{number}": 0.1 * number for number in range(10)}


def costs(call: Callable[[int], None]) -> list[float]:
    """Return the microseconds of each call."""
    taken = []
    for step in range(STEPS):
        started = time.perf_counter_ns()
        call(step)
        taken.append((time.perf_counter_ns() - started) / 1_000)
        if step % PAUSE_EVERY == 0:
            time.sleep(0.001)
    return taken


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRAINYARD_SPOOL"] = folder
        run = trainyard.init()
        ours = costs(lambda step: run.log(METRICS, step=step))
        run.finish()
        with (Path(folder) / "lines.jsonl").open("w") as file:
            lines = costs(lambda step: print(json.dumps({"step": step, **METRICS}), file=file))
    print(f"one log call of 10 metrics ({machine()}; {STEPS:,} calls)")
    for name, values in (("trainyard.log", ours), ("JSON lines, buffered", lines)):
        print(f"  {name:22} median {statistics.median(values):5.2f} us   p99 {percentile(values, 0.99):6.2f} us")
    print(
        f"  ratio of medians       {statistics.median(lines) / statistics.median(ours):.1f}   (goal: median <= 10 us)"
    )


if __name__ == "__main__":
    main()

"""The share of its time in which a run trains something new, while one of its processes is killed every minute."""

from __future__ import annotations

import os
import random
import signal
import time

import psutil

from benchmarks import goals
from benchmarks.stack import running
from benchmarks.table import Row, scaled
from benchmarks.training_cases.bench_recovery import OurRun
from trainyard.contract.base import JsonObject

KILLS = 5
EVERY_S = 60.0
PARTS = ("queued_s", "starting_s", "recomputed_s", "checkpoint_s", "detection_s", "restart_s")


def rows() -> list[Row]:
    number = scaled(KILLS)
    choice = random.Random(0)
    with running() as stack:
        run = OurRun(stack, checkpoint={"every_steps": 100})  # the default
        run.wait_for_steps(1)
        began = time.monotonic()
        for turn in range(number):
            time.sleep(max(0.0, began + (turn + 0.5) * EVERY_S - time.monotonic()))
            os.kill(victim(run.pid(turn % 2), choice), signal.SIGKILL)
        time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
        spent: JsonObject = run.document()["time"]
        attempts = int(run.document()["attempt"])
        run.stop()
    if attempts != number + 1:
        raise SystemExit(f"{number} kills made {attempts} attempts")
    total_s, goodput = float(spent["total_s"]), 100 * float(spent["goodput"])
    lost_s = sum(float(spent.get(part) or 0.0) for part in ("recomputed_s", "detection_s", "restart_s")) / number
    ten = 100 * (1 - lost_s / 600)
    others: dict[str, float | None] = {part: float(spent[part]) for part in PARTS if spent.get(part)}
    note = f"{number} kills in {total_s:.0f} s, from REST `time`; load {os.getloadavg()[0]:.1f}"
    return [
        Row("goodput with a kill a minute, hello-gpt", goodput, "%", None, "", is_less_better=False,
            goal=goals.GOODPUT_MINUTE, others=others, note=note),
        Row("goodput with a kill every ten minutes", ten, "%", None, "", is_less_better=False,
            goal=goals.GOODPUT_TEN_MINUTES, note=f"computed: {lost_s:.1f} s lost for each of these kills, in 600 s"),
    ]  # fmt: skip


def victim(rank: int, choice: random.Random) -> int:
    """Return the rank, or its supervisor."""
    return choice.choice([rank, psutil.Process(rank).ppid()])

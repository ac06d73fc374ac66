"""From what happens to the receiver of a notice: a script that calls ``run.alert`` five times a second, and runs whose
script fails, told to a webhook on this machine. Times are of one clock: in the alert's own words and the run's end on
one side, of the receipt on the other."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from benchmarks import goals
from benchmarks.stack import Stack, node_of, percentile, running
from benchmarks.table import Row, scaled
from tests.receivers import web_receiver
from trainyard.bundle import pack
from trainyard.contract.base import JsonObject

NUM_ALERTS, NUM_FAILURES, SLOTS = 100, 20, 8
EVERY_S = 0.2
PATIENCE_S = 60.0
SCRIPT = f"""
import sys, time, trainyard
run = trainyard.init()
if int(sys.argv[1]) == 0:
    sys.exit(1)
for number in range(int(sys.argv[1])):
    run.alert(f"alert at={{time.time():.6f}}", level="warn")
    time.sleep({EVERY_S})
run.finish()
"""


def rows() -> list[Row]:
    os.environ["NOTICE_HOSTS"] = "127.0.0.1"  # where webhooks may lead
    came: list[tuple[float, str]] = []

    def take(body: bytes, _: dict[str, str]) -> int:
        came.append((time.time(), body.decode()))
        return 200

    with web_receiver() as receiver, running(nodes=0) as stack, node_of(stack, SLOTS):
        receiver.answer = take
        rule = {"where": "webhook", "destination": receiver.url, "kinds": {"failed": None, "alert": 1}}
        stack.http.post("/api/v1/notices/rules", json=rule).raise_for_status()
        sha256 = stored(stack)
        alerts = of_alerts(stack, sha256, came)
        failures = of_failures(stack, sha256, came)
    return [row("run.alert()", alerts, scaled(NUM_ALERTS, 5)), row("the end of a run that failed", failures,
            scaled(NUM_FAILURES, 2))]  # fmt: skip


def row(what: str, ages: list[float], count: int) -> Row:
    return Row(f"{what} to the receipt by a webhook, p95", percentile(ages, 0.95), "s", None, "", goal=goals.NOTICE_P95,
               spread=(min(ages), max(ages)), note=f"{len(ages)} of {count} came, each once")  # fmt: skip


def stored(stack: Stack) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "speak.py").write_text(SCRIPT)
        return stack.bundle(pack(Path(folder))[0])


def spec(sha256: str, name: str, count: int) -> JsonObject:
    task = {"script": "speak.py", "arguments": [str(count)], "code": {"sha256": sha256}}
    resources = {"nodes": 1, "processes_per_node": 1}
    return {"name": name, "resources": resources, "task": task, "restarts": {"max": 0}}


def of_alerts(stack: Stack, sha256: str, came: list[tuple[float, str]]) -> list[float]:
    """Return after how many seconds each alert came."""
    count = scaled(NUM_ALERTS, 5)
    stack.wait(stack.submit(spec(sha256, "speaks", count)), 120)
    wait_for(came, count)
    found = {told[1]: at - float(told[1]) for at, text in came if (told := re.search(r"alert at=([\d.]+\d)", text))}
    assert len(found) == len(came), "one came twice"
    return list(found.values())


def of_failures(stack: Stack, sha256: str, came: list[tuple[float, str]]) -> list[float]:
    """Return after how many seconds the end of each run came."""
    came.clear()
    count = scaled(NUM_FAILURES, 2)
    runs = [stack.submit(spec(sha256, f"fails-{number}", 0)) for number in range(count)]
    wait_for(came, count)
    ends = {run: datetime.fromisoformat(stack.get(f"/runs/{run}")["ended_at"]).timestamp() for run in runs}
    found = [(run, at - end) for run, end in ends.items() for at, text in came if run in text]
    assert len(found) == len({run for run, _ in found}), "one came twice"
    return [age for _, age in found]


def wait_for(came: list[tuple[float, str]], count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(came) < count and time.monotonic() < deadline:
        time.sleep(0.2)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    sys.exit(main([Path(__file__).stem.removeprefix("bench_")]))

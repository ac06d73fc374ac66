"""An upgrade while it is used: a company's server from the wheel (tests/whole/test_company.py), upgraded to a wheel
with one more migration and taken back, in the documented order. Twenty runs log once a second, two hundred sockets
watch them, fifty programs call every five seconds, and browsers open whole pages, all through nginx.

Runs, programs and pages are paced, so that they do not saturate the machine by themselves. ``UPGRADE_OUT`` names a file
for the times of all steps and the longest calls of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import goals
from benchmarks.load.flow import program
from benchmarks.load.usage import Usage
from benchmarks.load.visitors import Answers, Plan
from benchmarks.metrics_stack import wait_for_line
from benchmarks.table import Row, scaled
from tests.browser.conftest import packed
from tests.whole import test_company
from tests.whole.runs import Yard, points
from tests.whole.test_company import Company, install_beside, later_wheel, lead_to, new_owner, running_company

NUM_RUNS, NUM_SOCKETS, NUM_PROGRAMS, NUM_WRITERS, NUM_BROWSERS = 20, 200, 50, 10, 4
EVERY_S = 5.0
QUIET_S = 20.0  # before, between and after
ORDER = ("control", "ingest", "web-0", "web-1")
# It logs once a second until a file is there, and keeps how many points it has logged.
SCRIPT = """
import os, pathlib, time, trainyard
run, step = trainyard.init(), 0
while not pathlib.Path({end!r}).exists() and step < 3600:
    run.log({{"train/loss": step / 2}}, step=step)
    step += 1
    time.sleep(1)
pathlib.Path(os.environ["TRAINYARD_OUTPUT"], "count").write_text(str(step))
run.finish()
"""


@dataclass
class Steps:
    """What was done when (Unix time), and the cores that each program took meanwhile."""

    names: list[str] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    cores: list[dict[str, float]] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)


def rows() -> list[Row]:
    if test_company.MISSING or os.geteuid() != 0:
        return [Row("upgrade", None, "s", None, "", note=f"it needs root and {', '.join(test_company.MISSING)}")]
    with new_owner() as owner, running_company(owner) as company:
        if company is None:
            return [Row("upgrade", None, "s", None, "", note="PostgreSQL's programs are not on this machine")]
        steps, answers, lost = measured(company)
    tell(steps, answers)
    return [*calls_rows(steps, answers), *others_rows(answers, lost)]


def measured(company: Company) -> tuple[Steps, Answers, int]:
    later = later_wheel(company.folder)
    with company.signed_in() as browser, company.yard(browser) as yard:
        try:
            runs = launch(company, yard, scaled(NUM_RUNS, 2))
            cookies = {one.name: str(one.value) for one in browser.cookies.jar}
            with visited(company, yard, runs, cookies) as (process, answers), Usage(roots(company)) as usage:
                usage.roots["visitors"] = [process.pid]
                steps = upgrade(company, usage, later)
        finally:
            (company.folder / "end").touch()
        lost = sum(num_lost(yard, run) for run in runs)
    return steps, answers, lost


def launch(company: Company, yard: Yard, count: int) -> list[str]:
    """Start so many runs on one node, and return them once all have logged."""
    cluster = yard.get("/clusters")["items"][0]
    company.join(yard.post(f"/clusters/{cluster['id']}/join-tokens")["token"], slots=count)
    yard.wait_for(lambda: any(one["is_in_contact"] for one in yard.get("/nodes")["items"]), "no node is in contact")
    code = company.folder / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT.format(end=str(company.folder / "end")))
    sha256 = yard.http.post("/bundles", content=packed(code)).json()["sha256"]
    task = {"script": "train.py", "code": {"sha256": sha256}}
    spec = {"resources": {"nodes": 1, "processes_per_node": 1}, "task": task}
    runs = [yard.submit({"name": f"light-{number}", **spec}) for number in range(count)]
    for run in runs:
        yard.wait_for_step(run, 3, seconds=300)
    return runs


@contextmanager
def visited(
    company: Company, yard: Yard, runs: list[str], cookies: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], Answers]]:
    """Have visitors come, and fill what it yields in when they have left."""
    token = yard.http.headers["Authorization"].removeprefix("Bearer ")
    plan = Plan(
        url=company.url, authority=str(company.folder / "ca.pem"), token=token, cookies=cookies, runs=runs,
        num_programs=scaled(NUM_PROGRAMS, 5), num_writers=scaled(NUM_WRITERS), num_browsers=scaled(NUM_BROWSERS),
        num_sockets=scaled(NUM_SOCKETS, 10), every_s=EVERY_S, answers=str(company.folder / "answers.json"),
    )  # fmt: skip
    path, answers = company.folder / "plan.json", Answers()
    path.write_text(json.dumps(asdict(plan)))
    with program("visitors", str(path)) as process:
        wait_for_line(process, "ready")
        yield process, answers
        assert process.stdin is not None
        process.stdin.write("enough\n")
        process.stdin.flush()
        wait_for_line(process, "done")
        answers.__dict__.update(json.loads(Path(plan.answers).read_text()))


def upgrade(company: Company, usage: Usage, later: Path) -> Steps:
    """Do what docs/operate.md says, there and back."""
    steps = Steps()

    def begin(name: str) -> None:
        if steps.names:
            steps.cores.append(usage.cores())
        usage.roots.update(roots(company))
        usage.reset()
        steps.names.append(name)
        steps.began.append(time.time())
        steps.loads.append(os.getloadavg()[0])

    begin("nothing")
    time.sleep(QUIET_S)
    begin("there: install")
    install_beside(company.folder / "server-0.2.0", later)
    for version, way in (("server-0.2.0", "there"), ("server-0.1.0", "back")):
        lead_to(company.folder, version)
        if way == "there":
            begin(f"{way}: migrate")
            assert company.says("migrate").startswith("1 migrations were applied")
        for name in ORDER:
            begin(f"{way}: {name}")
            company.again(name)
        begin(f"{way}: until ready")
        company.wait_until_ready()
        begin(f"{way}: afterwards")
        time.sleep(QUIET_S)
    begin("end")
    steps.cores.append({})
    return steps


def roots(company: Company) -> dict[str, list[int]]:
    """Pids by name: the server's processes, what stands around them, and the node with its runs."""
    nginx, node = company.processes[0], company.processes[-1]
    database, redis = company.database.process, company.redis.process
    assert database is not None and redis is not None
    others = {"nginx": nginx, "nodes and runs": node, "PostgreSQL": database, "Redis": redis}
    found = {name: [one.pid] for name, one in (company.others | others).items()}
    return {**found, "everything": [os.getpid()]}


def num_lost(yard: Yard, run: str) -> int:
    """Return how many of the points that the script has logged are not there with their value, or there twice."""
    yard.wait_for_end(run)
    count = int(yard.file(run, "count"))
    found = points(yard, run, "train/loss")
    return sum(found.get(step) != step / 2 for step in range(count)) + len(found.keys() - set(range(count)))


def calls_rows(steps: Steps, answers: Answers) -> list[Row]:
    quiet = [seconds for at, seconds, _ in answers.calls if at < steps.began[1]]
    busy = [seconds for at, seconds, _ in answers.calls if at >= steps.began[1]]
    failed = [why for *_, why in answers.calls if why]
    broken = [why for *_, why in answers.pages if why]
    pages = [seconds for _, seconds, _ in answers.pages]
    longest = max(answers.calls, key=lambda one: one[1])
    load = f"load {min(steps.loads):.0f} to {max(steps.loads):.0f} on {os.cpu_count()} cores"
    return [
        Row("upgrade and back: calls that failed", len(failed), f"of {len(answers.calls):,}", None, "",
            goal=goals.UPGRADE_FAILED, note="; ".join(sorted(set(failed))[:2])),
        Row("upgrade and back: longest call", max(busy), "s", max(quiet), "while nothing is done",
            goal=goals.UPGRADE_PAUSE, note=f"in {step_at(steps, longest[0])!r}; {load}"),
        Row("upgrade and back: pages that failed, each with scripts and styles, tried once", len(broken),
            f"of {len(answers.pages):,}", None, "", goal=goals.UPGRADE_FAILED,
            note=f"longest {max(pages, default=0):.1f} s; " + "; ".join(sorted(set(broken))[:2])),
    ]  # fmt: skip


def others_rows(answers: Answers, lost: int) -> list[Row]:
    away = [seconds for _, seconds, _ in answers.away]
    tries = max((count for *_, count in answers.away), default=0)
    return [
        Row("upgrade and back: longest that a socket was away", max(away, default=0.0), "s", None, "",
            goal=goals.UPGRADE_PAUSE, note=f"{len(away)} times, at most {tries} tries; longest without a message "
            f"{max(answers.silence_s):.1f} s"),
        Row("upgrade and back: points lost or twice", lost, "points", None, "", goal=goals.UPGRADE_FAILED),
    ]  # fmt: skip


def step_at(steps: Steps, at: float) -> str:
    return next(
        (name for name, (begin, end) in zip(steps.names, pairwise(steps.began), strict=False) if begin <= at < end),
        "end",
    )


def tell(steps: Steps, answers: Answers) -> None:
    """Print each step with its longest call, and who took the processor."""
    told: list[dict[str, Any]] = []
    for name, begin, end, cores, load in zip(
        steps.names, steps.began, [*steps.began[1:], steps.began[-1]], steps.cores, steps.loads, strict=True
    ):
        asked = sorted(seconds for at, seconds, _ in answers.calls if begin <= at < end)
        away = [seconds for at, seconds, _ in answers.away if begin <= at < end]
        shown = {one: round(value, 2) for one, value in cores.items() if value >= 0.02}
        told.append({"step": name, "s": round(end - begin, 1), "calls": len(asked), "load": round(load, 1),
                     "median": round(asked[len(asked) // 2], 3) if asked else None,
                     "longest": round(asked[-1], 2) if asked else None, "sockets away": len(away),
                     "longest away": round(max(away, default=0), 2), "cores": shown})  # fmt: skip
        print(json.dumps(told[-1]), file=sys.stderr)
    slow = sorted(answers.calls, key=lambda one: -one[1])[:10]
    for at, seconds, why in slow:
        print(f"  {step_at(steps, at)}: {seconds:.2f} s {why}", file=sys.stderr)
    if path := os.environ.get("UPGRADE_OUT"):
        Path(path).write_text(json.dumps({"steps": told, "answers": asdict(answers), "began": steps.began}))


if __name__ == "__main__":
    from benchmarks.__main__ import main

    sys.exit(main([Path(__file__).stem.removeprefix("bench_")]))

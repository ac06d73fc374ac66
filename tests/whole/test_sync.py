"""What a script logs outside of Trainyard becomes one run, each point once, whatever is killed on the way."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.up_process import OURS, ROOT, Up, wait_until
from tests.whole.runs import Yard
from tests.whole.test_command_line import trainyard

STEPS = 24_000  # of each rank: some megabytes, several requests
NAMES = [f"metric/{number}" for number in range(8)]

# A parent and two forked ranks; each logs half, waits for the word, and logs the rest.
SCRIPT = f"""
import os, sys
import trainyard

run = trainyard.init("two ranks at home", config={{"model": {{"width": 8}}}}, tags=["home"])
go_read, go_write = os.pipe()
children = []
for rank in (0, 1):
    pid = os.fork()
    children.append(pid)
    if pid == 0:
        os.environ["RANK"] = str(rank)
        for step in range({STEPS}):
            if step == {STEPS // 2}:
                os.write(1, b"half\\n")
                os.read(go_read, 1)
            run.log({{name: step + rank / 2 for name in {NAMES}}}, step=step, labels={{"rank": str(rank)}})
        sys.exit(0)
run.log({{"parent": 1.0}})
sys.stdin.readline()
os.write(go_write, b"..")
for pid in children:
    os.waitpid(pid, 0)
"""


@pytest.fixture
def training(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The script, which has logged half."""
    (tmp_path / "train.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    process = subprocess.Popen(
        [sys.executable, "train.py"], cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in (0, 1)] == ["half\n", "half\n"]
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.extended
def test_a_training_elsewhere_is_sent_once_though_sync_and_the_site_are_killed(
    running_trainyard: Up, yard: Yard, training: subprocess.Popen[str], tmp_path: Path
) -> None:
    spools = str(tmp_path / "trainyard-spool")
    done = trainyard(running_trainyard, "sync", spools, "--json")
    assert done.returncode == 0, done.stderr
    [item] = json.loads(done.stdout)["items"]
    run_id = item["run"]["id"]
    assert (item["run"]["name"], item["run"]["status"], item["run"]["cluster"]) == ("two ranks at home", "LOST", None)

    training.communicate("go\n", timeout=60)
    assert training.returncode == 0
    kill_in_the_middle(running_trainyard, yard, run_id, spools)
    assert yard.run(run_id)["status"] == "LOST"

    os.kill(running_trainyard.processes()["web"], signal.SIGKILL)
    done = trainyard(running_trainyard, "sync", spools)
    assert done.returncode == 0, done.stderr
    run = yard.run(run_id)
    assert run["status"] == "SUCCEEDED", run["reason"]
    assert (run["config"], run["tags"]) == ({"model": {"width": 8}}, ["home"])
    again = trainyard(running_trainyard, "sync", spools, "--json")
    assert [item["frames"] for item in json.loads(again.stdout)["items"]] == [0]
    assert len(yard.get("/runs", q="two ranks at home")["items"]) == 1
    check_every_point_is_there_once(running_trainyard, yard, run_id)
    assert yard.get(f"/runs/{run_id}/attempts")["items"] == []


def points_of(yard: Yard, run_id: str) -> dict[tuple[str, str], dict[str, Any]]:
    series = yard.get(f"/runs/{run_id}/series", limit=200)["items"]
    return {(one["name"], one["labels"].get("rank", "")): one for one in series}


def kill_in_the_middle(up: Up, yard: Yard, run_id: str, spools: str) -> None:
    """SIGKILL sync once it has stored something."""

    def stored() -> int:
        return sum(one["count"] for one in points_of(yard, run_id).values())

    before = stored()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    sync = subprocess.Popen(
        [sys.executable, "-m", "trainyard", "sync", spools], cwd=ROOT,
        env={**environment, "TRAINYARD_HOME": str(up.home)}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: stored() > before, "sync stores something", patience_s=60)
    sync.kill()
    assert sync.wait(30) == -signal.SIGKILL, "it was at work"
    assert stored() < 2 * STEPS * len(NAMES)


def check_every_point_is_there_once(up: Up, yard: Yard, run_id: str) -> None:
    found = points_of(yard, run_id)
    assert found.pop(("parent", ""))["count"] == 1
    assert found.keys() == {(name, rank) for name in NAMES for rank in "01"}
    assert {one["count"] for one in found.values()} == {STEPS}
    table = trainyard(up, "metrics", run_id, NAMES[3], "--csv").stdout.splitlines()
    values = {(row["labels"], int(row["step"])): float(row["value"]) for row in csv.DictReader(table)}
    assert len(table) == 1 + 2 * STEPS == 1 + len(values)
    assert all(value == step + ("1" in labels) / 2 for (labels, step), value in values.items())

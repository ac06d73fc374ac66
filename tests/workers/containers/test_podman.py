"""Ranks in real containers of this machine's Podman. ``make containers`` runs these: they take a minute.

No registry is reached: the image is made of the Python that runs the tests. Its storage is a folder of the tests' own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.containers.podman_machine import PACKAGES, Machine
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject

pytestmark = pytest.mark.extended

WHO = """
import os, pathlib
print(os.getuid(), os.environ.get("RANK"), os.environ["TRAINYARD_RUN"], pathlib.Path("/etc/marker").read_text())
status = pathlib.Path("/proc/self/status").read_text()
print([line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "NoNewPrivs"))])
print(sorted(one.name for one in pathlib.Path("/").iterdir()))
print(sum(name.isdigit() for name in os.listdir("/proc")) < 12)
pathlib.Path(os.environ["TRAINYARD_OUTPUT"], "out.txt").write_text("made inside")
try:
    (pathlib.Path(os.environ["DATA"]) / "x").write_text("x")
except OSError as error:
    print("data:", error.strerror)
"""
GATHERED = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print("sum", total.item(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""
SLEEPS = "import time\nprint('asleep', flush=True)\ntime.sleep(600)\n"
STOPS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(7)))
print("asleep", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def node(machine: Machine, own_valkey: Valkey, python_without_torch: Path) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        found = ControlledNode(folder, own_valkey.url, name="yard", python=python_without_torch)
        found.start(**machine.settings, TRAINYARD_DATA_ROOTS=str(PACKAGES))
        yield found
        found.close()


def order_with(node: ControlledNode, script: str, container: Any = "localhost/python:1", **changes: Any) -> JsonObject:
    ranks = changes.pop("ranks", 1)
    task = {"script": "train.py", "arguments": [], **changes.pop("task", {})}
    spec = {"project": "p", "task": task, "environment": {"container": container}}
    return node.order(script, spec=spec, ranks=ranks, **changes)


def asleep(node: ControlledNode, order: JsonObject) -> None:
    node.launch(order)
    until(lambda: "asleep" in node.lines(order), about=lambda: [node.lines(order, "stderr"), node.report(order)])


def test_two_ranks_run_in_the_image_as_nobody_in_particular(machine: Machine, node: ControlledNode) -> None:
    order = order_with(node, WHO, ranks=2, task={"environment": {"DATA": str(PACKAGES)}})
    report = node.run(order)
    lines = node.lines(order)
    assert report["reason"] is None, (report["reason"], node.lines(order, "build"))
    assert "image 1" in lines[0], lines
    assert {line.split()[1] for line in lines if order["run"] in line} == {"0", "1"}
    level = node.up()["inventory"]["sandbox"]["level"]  # type: ignore[index]
    assert (int(lines[0].split()[0]) > 1_000) == (level > 0), "the project's user"
    assert "['0000000000000000', '1']" in lines
    assert "True" in lines, "it sees the processes of its attempt"
    assert any(line.startswith("data: Read-only") or line.startswith("data: Permission") for line in lines), lines
    assert (node.folder(order["attempt"]).output / "out.txt").read_text() == "made inside"
    assert report["image"].startswith("localhost/python@sha256:"), "the tag, resolved"
    assert machine.containers() == ""


def test_ranks_of_torch_find_each_other(node: ControlledNode) -> None:
    order = order_with(node, GATHERED, ranks=2, task={"environment": {"PYTHONPATH": str(PACKAGES)}})
    report = node.run(order)
    assert report["reason"] is None, (report["reason"], node.lines(order, "stderr")[-20:])
    assert node.lines(order).count("sum 3.0 of 2") == 2


def test_an_exit_code_and_a_signal_are_the_programs(node: ControlledNode) -> None:
    order = order_with(node, "import sys; sys.exit(9)")
    assert node.run(order)["ranks"][0]["exit_code"] == 9
    order = order_with(node, "import os; os.kill(os.getpid(), 11)")
    rank = node.run(order)["ranks"][0]
    assert (rank.get("exit_code"), rank["signal"]) == (None, 11)


def test_a_stopped_rank_may_save_and_one_that_does_not_is_killed(machine: Machine, node: ControlledNode) -> None:
    order = order_with(node, STOPS)
    asleep(node, order)
    node.say(order, wanted="stop", grace_s=20.0)
    assert node.wait_for(order, "ended")["ranks"][0]["exit_code"] == 7
    node.wait_until_shipped(order)
    assert "saved" in node.lines(order)
    order = order_with(node, SLEEPS.replace("import time", "import signal, time; signal.signal(15, signal.SIG_IGN)"))
    asleep(node, order)
    node.say(order, wanted="stop", grace_s=0.5)
    report = node.wait_for(order, "ended")
    assert report["ranks"][0]["signal"] == 9
    assert machine.containers() == ""


def test_an_image_is_built_of_the_code_once(node: ControlledNode) -> None:
    text = "FROM localhost/python:1\nRUN python3 -c \"open('/etc/marker', 'w').write('built')\"\n"
    logs = []
    for _ in range(2):
        order = order_with(node, WHO, {"file": "train.py"}, task={"command": ["/bin/cat", "/etc/marker"]})
        order["code"] = node.store_code(text)
        assert node.run(order)["reason"] is None, node.lines(order, "build")
        assert node.lines(order) == ["built"]
        logs.append(node.lines(order, "build"))
    assert any(line.startswith("STEP 2/") for line in logs[0])
    assert len(logs[1]) == 1, logs[1]


def test_an_archive_below_the_data_roots_needs_no_registry(machine: Machine, node: ControlledNode) -> None:
    outside = machine.folder / "image.tar"
    machine.call("save", "--format", "oci-archive", "--output", str(outside), "localhost/python:1")
    order = order_with(node, WHO, f"oci-archive:{outside}")
    node.nudge(order)
    node.say(order)
    sentence = node.wait_for(order, "ended")["reason"]["sentence"]
    assert "environment.container.image" in sentence
    assert "closed to others" in sentence or "outside of the folders" in sentence
    inside = PACKAGES / "trainyard-test-image.tar"
    try:
        outside.chmod(0o644)
        shutil.move(outside, inside)
        order = order_with(node, WHO, f"oci-archive:{inside}", task={"environment": {"DATA": "/etc"}})
        assert node.run(order)["reason"] is None, node.lines(order, "build")
        assert "image 1" in node.lines(order)[0]
    finally:
        inside.unlink(missing_ok=True)


def test_what_is_missing_is_named_before_a_rank_starts(node: ControlledNode) -> None:
    for container, words in (
        ("127.0.0.1:9/none:1", "127.0.0.1:9"),
        ({"file": "Containerfile"}, "no file Containerfile"),
    ):
        order = order_with(node, WHO, container)
        node.nudge(order)
        node.say(order)
        report = node.wait_for(order, "ended")
        assert (report["reason"]["code"], report["ranks"]) == ("environment", [])
        assert words in report["reason"]["sentence"]

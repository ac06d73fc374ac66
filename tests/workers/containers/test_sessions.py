"""Commands and terminals beside a rank that runs in a container. ``make containers`` runs these."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.attached import Attached, check_that_ending_it_leaves_nothing, check_that_its_command_leaves_nothing
from tests.workers.containers.podman_machine import Machine
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from trainyard.contract.sessions import FrameKind

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]

RANK = """
import os, pathlib, time
pathlib.Path("/tmp/of-the-rank").write_text("seen")
print(os.getpid(), flush=True)
time.sleep(600)
"""
WHO = """
import os, pathlib
status = dict(line.split(":\\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(pathlib.Path("/etc/marker").read_text(), pathlib.Path("/tmp/of-the-rank").read_text())
print(os.getuid(), os.getcwd(), os.environ["RANK"], os.environ["TRAINYARD_RUN"])
print(status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"])
print(b"train.py" in pathlib.Path("/proc", os.environ["RANK_PID"], "cmdline").read_bytes())
"""


@pytest.fixture(scope="module")
def node(machine: Machine, own_valkey: Valkey, python_without_torch: Path) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        found = ControlledNode(folder, own_valkey.url, name="yard", python=python_without_torch)
        found.start(**machine.settings)
        yield found
        found.close()


@pytest.fixture(scope="module")
def live(node: ControlledNode) -> Iterator[JsonObject]:
    """An attempt whose two ranks wait."""
    task = {"script": "train.py", "arguments": []}
    spec = {"project": "p", "task": task, "environment": {"container": "localhost/python:1"}}
    order = node.order(RANK, spec=spec, ranks=2)
    node.launch(order)
    until(lambda: len(node.lines(order)) == 2, about=lambda: [node.lines(order, "stderr"), node.report(order)])
    yield order
    node.say(order, wanted="stop", grace_s=0.5)
    node.wait_for(order, "ended")


def test_a_command_is_in_the_ranks_container_with_no_more_rights(node: ControlledNode, live: JsonObject) -> None:
    session = Attached(node, live, "python3", "-c", WHO, rank=1)
    end = session.end()
    assert (end.exit_code, session.output(2)) == (0, ""), session.output(2)
    image, place, rights, sees_rank = session.output().splitlines()
    user, folder, rank, run = place.split()
    assert image == "image 1 seen"
    assert (folder, rank, run) == (str(node.folder(live["attempt"]).code), "1", live["run"])
    level = node.up()["inventory"]["sandbox"]["level"]  # type: ignore[index]
    assert (int(user) > 1_000) == (level > 0), "the project's user"
    assert rights == "0000000000000000 0000000000000000 1 2"
    assert sees_rank == "True"


def test_its_end_is_the_commands(node: ControlledNode, live: JsonObject) -> None:
    assert Attached(node, live, "python3", "-c", "import sys; sys.exit(7)").end().exit_code == 7
    missing = Attached(node, live, "no-such-program")
    assert missing.end().exit_code == 127
    assert "no-such-program" in missing.output(2)
    read = Attached(node, live, "cat", input=True)
    read.type("what was typed")
    read.send(FrameKind.END_OF_INPUT)
    assert (read.end().exit_code, read.output()) == (0, "what was typed")


def test_a_terminal_knows_its_size_and_takes_keys(node: ControlledNode, live: JsonObject) -> None:
    session = Attached(node, live, terminal=True, rows=30, columns=90)
    session.wait_for("[rank 0] code$ ")
    session.type("python3 -c 'import os; print(*os.get_terminal_size(), os.ttyname(0))'\r")
    session.wait_for("90 30 /dev/pts/")
    session.send(FrameKind.SIZE, struct.pack(">HH", 40, 100))
    session.type("python3 -c 'import os; print(*os.get_terminal_size(), \"now\")'\r")
    session.wait_for("100 40 now")
    session.type("sleep 600\r")
    session.wait_for("sleep 600")
    session.type("\x03")
    session.type("echo $((6 * 7)) again\r")
    session.wait_for("42 again")
    session.type("exit 5\r")
    assert session.end().exit_code == 5


@pytest.mark.parametrize("terminal", [False, True])
def test_all_that_it_started_ends_with_it_and_the_ranks_go_on(
    node: ControlledNode, live: JsonObject, terminal: bool
) -> None:
    check_that_ending_it_leaves_nothing(node, live, f"stays-{terminal}", terminal=terminal)


def test_what_a_command_leaves_behind_ends_with_it(node: ControlledNode, live: JsonObject) -> None:
    check_that_its_command_leaves_nothing(node, live, "left-inside")

"""The temporary folder of ranks: its name is short wherever the home is, so that sockets fit below it."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from workers.attempt.folder import AttemptFolder
from workers.attempt.temporary import give_name, take_name

HOME_CHARACTERS = 90
ROOM_CHARACTERS = 60  # of the paths of Ray's sockets below the folder; multiprocessing's have 32
SOCKET_CHARACTERS = 107

LOADS = """
import os, socket, sys, tempfile
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    rows = DataLoader(TensorDataset(torch.arange(64.0)), batch_size=4, num_workers=2)
    print("sum", sum(float(batch.sum()) for (batch,) in rows))
    folder = tempfile.mkdtemp()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/{'s' * 40}")
        print("bound", len(os.environ["TMPDIR"]))
"""
WAITS = """
import os, time
open(os.environ["TMPDIR"] + "/mine", "w").write("kept")
print(os.environ["TMPDIR"], flush=True)
while not os.path.exists(os.environ["TMPDIR"] + "/go"):
    time.sleep(0.05)
print(open(os.environ["TMPDIR"] + "/mine").read(), flush=True)
"""


@pytest.fixture(scope="module")
def far_node(own_valkey: Valkey) -> Iterator[ControlledNode]:
    """A node whose home has a name of 90 characters."""
    with short_folder("ty-far-") as folder:
        base = folder / ("h" * (HOME_CHARACTERS - len(str(folder)) - 1))
        base.mkdir()
        node = ControlledNode(base, own_valkey.url, name="far")
        assert len(str(base)) == HOME_CHARACTERS
        node.start()
        yield node
        node.close()


def waiting(node: ControlledNode) -> tuple[JsonObject, str]:
    order = node.order(WAITS)
    node.launch(order)
    return order, until(lambda: node.lines(order))[0]


@pytest.mark.parametrize("task", [{}, {"python": sys.executable}], ids=["warm", "cold"])
def test_a_loader_with_workers_loads_from_a_home_of_90_characters(
    far_node: ControlledNode, task: dict[str, str]
) -> None:
    order = far_node.order(LOADS)
    order["spec"]["task"] |= task
    far_node.launch(order)
    report = far_node.wait_for(order, "ended")
    assert report["reason"] is None, report
    far_node.wait_until_shipped(order)
    total, bound = far_node.lines(order)
    assert total == f"sum {float(sum(range(64)))}"
    assert int(bound.split()[1]) + ROOM_CHARACTERS <= SOCKET_CHARACTERS


def test_what_lies_there_is_the_attempts_and_the_name_goes_with_its_ranks(far_node: ControlledNode) -> None:
    order, name = waiting(far_node)
    kept = far_node.folder(order["attempt"]).temporary
    assert (kept / "mine").read_text() == "kept"
    os.unlink(name)  # noqa: PTH108  # as what clears /tmp of old files does: it comes again
    until(lambda: os.path.lexists(name))
    (kept / "go").touch()
    assert far_node.wait_for(order, "ended")["reason"] is None
    far_node.wait_until_shipped(order)
    assert far_node.lines(order)[1:] == ["kept"]
    until(lambda: not os.path.lexists(name))


def test_the_name_goes_too_where_everything_was_killed(bare_node: ControlledNode) -> None:
    order, name = waiting(bare_node)
    supervisor = int(bare_node.wait_for(order, "running")["supervisor_pid"])
    bare_node.kill()
    os.kill(supervisor, signal.SIGKILL)
    assert os.path.islink(name)  # noqa: PTH114
    bare_node.start()
    assert bare_node.wait_for(order, "ended")["reason"]["code"] == "supervisor_killed"
    assert not os.path.lexists(name)


def test_a_node_removes_the_names_whose_homes_are_gone(
    far_node: ControlledNode, home: Path, valkey: Valkey, python_without_torch: Path
) -> None:
    """Others, and those of living attempts, stay."""
    order, name = waiting(far_node)
    lost, foreign = Path(f"/tmp/ty-{order['attempt']}-gone"), Path(f"/tmp/ty-{order['attempt']}-foreign")
    lost.symlink_to(home / "attempts" / order["attempt"] / "tmp")
    foreign.symlink_to(home / "nothing")
    started_later = ControlledNode(home, valkey.url, name="later", python=python_without_torch)
    try:
        started_later.start()
        until(lambda: not os.path.lexists(lost))
        assert os.path.lexists(name) and os.path.lexists(foreign)
    finally:
        started_later.close()
        foreign.unlink()
        (far_node.folder(order["attempt"]).temporary / "go").touch()
        far_node.wait_for(order, "ended")


def test_a_name_that_somebody_else_has_taken_is_not_used(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path / "attempts" / secrets.token_hex(6))
    folder.temporary.mkdir(parents=True)
    first = give_name(folder.temporary, folder.attempt)
    take_name(folder.temporary, folder.attempt)
    first.symlink_to("/etc")
    try:
        second = give_name(folder.temporary, folder.attempt)
        assert second != first and second.resolve() == folder.temporary
        take_name(folder.temporary, folder.attempt)
        assert first.is_symlink() and not os.path.lexists(second)
    finally:
        first.unlink()

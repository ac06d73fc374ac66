"""What a node reports of itself, with a real Valkey whose clock it asks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disks import disk_of_1_mb, fill
from tests.servers import Valkey
from trainyard.contract.desired import Peer, ProbeRequest
from workers.machine.gpus import fault_reader
from workers.node.preflight.self_check import SelfChecker, check_folder, clock_ahead_s
from workers.transport.desired_reader import connect


@pytest.fixture
def checker(own_valkey: Valkey, tmp_path: Path) -> Iterator[SelfChecker]:
    made = SelfChecker(
        connect(own_valkey.url),
        node="node-a",
        address="127.0.0.1",
        home=tmp_path,
        checkpoints=tmp_path / "checkpoints",
        gpus=fault_reader(),
    )
    made.start()
    yield made
    made.stop()


def test_folders_clock_and_port_are_reported_unasked(checker: SelfChecker) -> None:
    checker.step()
    found = checker.latest
    assert found.home and not found.home.problem and found.checkpoints and not found.checkpoints.problem
    assert found.clock_ahead_s is not None and abs(found.clock_ahead_s) < 1
    assert found.port and found.answers == "" and found.peers == {}


def test_what_somebody_waits_for_is_looked_at_now(checker: SelfChecker, tmp_path: Path) -> None:
    checker.step()
    (tmp_path / "checkpoints").write_text("in the way")
    checker.step()
    assert checker.latest.checkpoints and not checker.latest.checkpoints.problem  # looked at a moment ago
    assert checker.latest.port is not None
    itself = Peer("node-a", "node-a", "127.0.0.1", checker.latest.port)
    checker.take(ProbeRequest([itself], id="asked"))
    assert checker.sooner.is_set()
    checker.step()
    found = checker.latest
    assert found.answers == "asked"
    assert found.checkpoints and found.checkpoints.problem == "is a file, not a folder"
    assert not found.peers["node-a"].problem


def test_a_clock_that_is_wrong_is_measured(own_valkey: Valkey) -> None:
    client = connect(own_valkey.url)
    assert abs(clock_ahead_s(client, lambda: time.time() + 3600) - 3600) < 0.5
    assert abs(clock_ahead_s(client, lambda: time.time() - 12.5) + 12.5) < 0.5


# A folder takes files, or it is said why not.


def test_a_folder_takes_files_and_keeps_nothing_of_the_test(tmp_path: Path) -> None:
    state = check_folder(tmp_path)
    assert not state.problem and state.free_bytes and state.total_bytes and state.path == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path) -> None:
    assert not check_folder(tmp_path / "checkpoints" / "of" / "mine").problem
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "checkpoints"
    file.write_text("")
    assert check_folder(file).problem == "is a file, not a folder"
    assert check_folder(file / "deeper").problem == f"cannot be made: {file} is a file"


def test_a_full_disk_takes_no_files(tmp_path: Path) -> None:
    with disk_of_1_mb(tmp_path / "disk") as folder:
        assert not check_folder(folder).problem
        fill(folder)
        state = check_folder(folder)
    assert state.problem == "takes no files: no space left on device"
    assert state.free_bytes == 0

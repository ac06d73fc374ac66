"""What a node reports of itself, with a real Valkey whose clock it asks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey
from trainyard.contract.desired import Peer, ProbeRequest
from workers.machine.gpu_faults import GpuFaultReader
from workers.node.preflight.self_check import SelfChecker, clock_ahead_s
from workers.transport.valkey import connect


@pytest.fixture
def checker(own_valkey: Valkey, tmp_path: Path) -> Iterator[SelfChecker]:
    made = SelfChecker(
        connect(own_valkey.url),
        node="node-a",
        address="127.0.0.1",
        home=tmp_path,
        checkpoints=tmp_path / "checkpoints",
        gpus=GpuFaultReader(),
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

"""A supervisor whose report changed is heard at once; what nobody sealed leads to nothing but a look."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from runs.life.reconcile.clock import Hints
from runs.serving.transport import redis
from tests.servers import Valkey
from trainyard.contract.seals import CHANGED_CHANNEL


@pytest.fixture
def sent(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    runs: list[str] = []
    monkeypatch.setattr("runs.engines.control_hints.request_reconcile", runs.append)
    hints = Hints()
    hints.start()
    until(lambda: redis().pubsub_numsub(CHANGED_CHANNEL)[0][1] == 1)
    yield runs
    hints.stop()
    hints.join()


def until(is_so: Any) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_hint_has_its_run_looked_at(sent: list[str]) -> None:
    redis().publish(CHANGED_CHANNEL, "abcdefghjk")
    until(lambda: sent == ["abcdefghjk"])


def test_what_is_no_run_is_dropped_and_the_listening_goes_on(sent: list[str]) -> None:
    for junk in (b"\xff\xfe", b"", b"x" * 1000):
        redis().publish(CHANGED_CHANNEL, junk)
    redis().publish(CHANGED_CHANNEL, "abcdefghjk")
    until(lambda: "abcdefghjk" in sent)
    assert all(len(run) <= 12 for run in sent)


def test_it_comes_back_when_valkey_does(sent: list[str], valkey: Valkey) -> None:
    valkey.kill()
    valkey.start()
    until(lambda: redis().pubsub_numsub(CHANGED_CHANNEL)[0][1] == 1)
    redis().publish(CHANGED_CHANNEL, "abcdefghjk")
    until(lambda: "abcdefghjk" in sent)

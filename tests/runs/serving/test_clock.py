"""What every clock of control promises, whatever its round does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db.utils import ConnectionHandler
from structlog.testing import capture_logs

from runs.serving.clock import STOP_LIMIT_S, Clock
from runs.serving.transport import redis
from tests.servers import Valkey

Start = Callable[..., Clock]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a clock that is stopped in the end."""
    clocks: list[Clock] = []

    def start_one(round_once: Callable[[datetime], object], name: str = "tried", **options: Any) -> Clock:
        clocks.append(Clock(name, round_once, **{"every_s": 0.01, **options}))
        clocks[-1].start()
        return clocks[-1]

    yield start_one
    for one in clocks:
        one.stop()


class Rounds:
    """Counts rounds, and does in each what it is told to."""

    def __init__(self, do: Callable[[], object] = lambda: None) -> None:
        self.number, self.do = 0, do

    def __call__(self, _now: datetime) -> None:
        self.number += 1
        self.do()

    def wait_for_more(self, more: int = 2) -> None:
        wanted = self.number + more
        until(lambda: self.number >= wanted)


def until(is_so: Callable[[], object], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def events(logs: Any) -> list[str]:
    return [line["event"] for line in logs]


def test_a_round_that_raises_does_not_end_the_clock_and_is_said_each_time(start: Start) -> None:
    rounds = Rounds(lambda: {}["a bug"])
    with capture_logs() as logs:
        clock = start(rounds)
        rounds.wait_for_more(3)
        clock.stop()
    assert events(logs) == ["clock.failed"] * rounds.number
    assert logs[0]["clock"] == "tried" and logs[0]["exc_info"]


def test_a_database_that_is_away_is_said_once_per_trouble(start: Start, db: None, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    database = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "rows")}})

    def read() -> None:
        with database["default"].cursor() as cursor:
            cursor.execute("SELECT 1")
        database["default"].close()

    rounds = Rounds(read)
    with capture_logs() as logs:
        start(rounds)
        rounds.wait_for_more()
        folder.mkdir()
        rounds.wait_for_more()
        assert events(logs) == ["clock.away"]
        folder.rename(tmp_path / "gone")
        rounds.wait_for_more()
    assert events(logs) == ["clock.away", "clock.away"]
    assert "unable to open database file" in logs[0]["error"]


def test_a_valkey_that_is_away_is_survived_and_said_once(start: Start, valkey: Valkey) -> None:
    rounds = Rounds()
    with capture_logs() as logs:
        start(rounds, lock_s=5)
        rounds.wait_for_more()
        valkey.kill()
        until(lambda: logs)
        time.sleep(0.2)  # many rounds
        valkey.start()
        rounds.wait_for_more()
    assert events(logs) == ["clock.away"]


def test_it_stops_at_once_between_rounds_and_in_bounded_time_within_one(start: Start) -> None:
    resting = start(Rounds(), every_s=60)
    busy, is_over = Rounds(lambda: is_over.wait(30)), threading.Event()
    stuck = start(busy)
    until(lambda: busy.number)
    began = time.monotonic()
    resting.stop()
    assert not resting.is_alive()
    stuck.stop()
    assert time.monotonic() - began < STOP_LIMIT_S + 1
    is_over.set()
    stuck.join(10)
    assert busy.number == 1


class ClearedLate(threading.Event):
    """Is cleared right after somebody else has set it."""

    def __init__(self) -> None:
        super().__init__()
        self.clearing = threading.Event()

    def clear(self) -> None:
        self.clearing.set()
        assert self.wait(20)
        super().clear()


def test_a_stop_at_the_moment_of_the_clearing_is_not_lost(start: Start) -> None:
    event, rounds = ClearedLate(), Rounds()
    clock = start(rounds, every_s=60, wake=event)
    assert event.clearing.wait(20)
    clock.stop()
    assert not clock.is_alive() and not rounds.number


def test_a_wake_brings_the_next_round_at_once(start: Start) -> None:
    rounds = Rounds()
    clock = start(rounds, every_s=60)
    until(lambda: rounds.number == 1)
    clock.wake(sender=None)
    until(lambda: rounds.number == 2)


def test_of_several_with_one_lock_one_does_a_round_at_a_time(start: Start, valkey: Valkey) -> None:
    inside = threading.Semaphore(1)
    overlaps: list[str] = []

    def work() -> None:
        if not inside.acquire(blocking=False):
            overlaps.append("two at once")
            return
        time.sleep(0.02)
        inside.release()

    each = [Rounds(work) for _ in range(3)]
    for rounds in each:
        start(rounds, lock_s=5)
    until(lambda: sum(rounds.number for rounds in each) >= 20)
    assert not overlaps
    elsewhere = Rounds(work)  # a lock is its clock's alone
    redis().set("trainyard:control:tried-lock", "somebody", px=60_000)
    start(elsewhere, name="another", lock_s=5)
    elsewhere.wait_for_more()

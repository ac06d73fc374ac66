from __future__ import annotations

import subprocess
import sys

import pytest

from runs.ingest import lock
from runs.ingest.lock import ShardLock
from runs.serving.transport import redis
from tests.servers import Valkey

KEY = "trainyard:ingest:0"


@pytest.fixture(autouse=True)
def here(valkey: Valkey) -> None:
    redis().delete(KEY)


def holder_of(pid: int, *, machine: str = "", started: str = "") -> str:
    """What a process would have written, had it taken the lock."""
    place, _, own_start = lock.whoami().split()
    return f"token {machine or place} {pid} {started or own_start}"


def test_one_holds_it_and_the_next_gets_it_when_it_is_let_go() -> None:
    one, other = ShardLock(0), ShardLock(0)
    assert one.hold() and one.hold()
    assert not other.hold()
    one.release()
    assert other.hold()
    assert not one.hold()


def test_it_runs_out_by_itself() -> None:
    assert ShardLock(0).hold()
    assert 0 < redis().pttl(KEY) <= lock.LEASE_S * 1000


def test_a_dead_process_of_this_machine_is_not_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    redis().set(KEY, holder_of(process.pid, started="5"))
    assert ShardLock(0).hold()


def test_one_that_was_killed_and_is_not_yet_reaped_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = lock._started(process.pid)
    redis().set(KEY, holder_of(process.pid, started=started))
    assert not ShardLock(0).hold()
    process.kill()
    assert process.stdin is not None
    subprocess.run(["sleep", "0.2"], check=True)
    assert lock._started(process.pid) == "", "a zombie"
    assert ShardLock(0).hold()
    process.communicate()


def test_a_number_that_another_process_has_by_now_is_a_dead_holder() -> None:
    import os

    redis().set(KEY, holder_of(os.getpid(), started="5"))
    assert ShardLock(0).hold()


@pytest.mark.parametrize("value", [holder_of(4_000_000, machine="elsewhere/1"), "token", "", "a b c d", "\udc80x"])
def test_of_anybody_else_nothing_is_known_and_the_lock_is_waited_for(value: str) -> None:
    redis().set(KEY, value.encode("utf-8", "surrogateescape"))
    waiting = ShardLock(0)
    assert not waiting.hold()
    waiting.release()
    assert redis().exists(KEY)


def test_of_two_that_see_the_dead_holder_one_takes_over() -> None:
    redis().set(KEY, holder_of(4_000_000))
    one, other = ShardLock(0), ShardLock(0)
    dead = one._ask(one._value)
    assert other._ask(other._value) == dead
    assert one._ask(dead) == one._value
    assert other._ask(dead) == one._value

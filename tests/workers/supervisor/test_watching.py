from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.workers.control import until
from trainyard.contract.causes import CauseClass
from trainyard.failures.ranks import explain_rank
from workers.attempt.documents import RankExit, write_document
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import Exit, start_of
from workers.supervisor import watching
from workers.supervisor.ranks import activity
from workers.supervisor.ranks.activity import Activity
from workers.supervisor.ranks.state import RankState
from workers.supervisor.watching import ExitWatch, Watching, is_listening

WAITS = "import threading; threading.Event().wait()"
HAS_CHILD = "import os, threading\nif os.fork():\n    threading.Event().wait()\nelse:\n    threading.Event().wait()"
WORKS = "import time\nwhile True: time.sleep(0.05)"


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_is_seen_while_somebody_listens_there(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        server.bind((address, 0))
        port = server.getsockname()[1]
        assert is_listening(port) is False  # it is taken, and nobody can connect
        server.listen()
        assert is_listening(port) is True
    assert is_listening(port) is False


def test_where_the_kernel_does_not_say_it_is_not_known(tmp_path: Path) -> None:
    assert is_listening(80, tmp_path) is None


def test_ranks_that_join_at_once_are_seen_in_one_look(tmp_path: Path) -> None:
    watching = Watching.__new__(Watching)
    watching._folder, watching._groups_due_at = AttemptFolder(tmp_path), 0.0
    watching.ranks = [RankState(rank=rank, pid=1, started_at=0.0, group="none") for rank in range(3)]
    for rank in watching.ranks:
        path = watching._folder.joined_path(rank.rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert watching._update_groups() and [rank.group for rank in watching.ranks] == ["joined"] * 3


# Ranks whose script is over and whose process is still there: with real processes, and a grace of a second.


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    found = AttemptFolder(tmp_path / "attempt")
    found.logs.mkdir(parents=True)
    return found


@contextmanager
def exiting(script: str, folder: AttemptFolder, code: int = 0) -> Iterator[RankState]:
    write_document(folder.exit_path(0), RankExit(code))
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as process:
        try:
            yield RankState(rank=0, pid=process.pid, started_at=time.time())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def watched(folder: AttemptFolder, monkeypatch: pytest.MonkeyPatch) -> tuple[Activity, ExitWatch]:
    monkeypatch.setattr(watching, "EXIT_GRACE_S", 1.0)
    monkeypatch.setattr(activity, "LOOK_EVERY_S", 0.3)
    seen = Activity(folder)
    return seen, ExitWatch(folder, seen)


def watch(watched: tuple[Activity, ExitWatch], rank: RankState) -> bool:
    time.sleep(0.05)
    watched[0].update([rank])
    watched[1].update([rank])
    return rank.exit_hang


@pytest.mark.parametrize("script", [HAS_CHILD, WORKS], ids=["a child lives", "it works"])
def test_a_rank_whose_script_is_over_is_left_alone_while_it_works_or_a_child_lives(
    script: str, folder: AttemptFolder, watched: tuple[Activity, ExitWatch]
) -> None:
    with exiting(script, folder) as rank:
        deadline = time.monotonic() + 3.0
        while time.monotonic() < deadline:
            assert not watch(watched, rank)


def test_a_time_in_which_nobody_could_look_does_not_count(
    folder: AttemptFolder, watched: tuple[Activity, ExitWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that sleeps stops its ranks with their supervisor."""
    monkeypatch.setattr(watching, "UNSEEN_S", 1.0)
    with exiting(WORKS, folder) as rank:
        for _ in range(10):
            assert not watch(watched, rank)
        os.kill(rank.pid, signal.SIGSTOP)
        time.sleep(1.5)
        assert not watch(watched, rank)
        os.kill(rank.pid, signal.SIGCONT)
        for _ in range(30):
            assert not watch(watched, rank)


def test_one_that_does_nothing_any_more_is_ended_and_has_failed(
    folder: AttemptFolder, watched: tuple[Activity, ExitWatch]
) -> None:
    with exiting(WAITS, folder) as rank:
        until(lambda: watch(watched, rank))
        until(lambda: start_of(rank.pid) is None)
        rank.end(Exit(None, 9), time.time(), folder)
    assert rank.has_failed
    failure = explain_rank(rank, "one")
    assert failure.cause_class == CauseClass.USER_ERROR
    assert failure.sentence.startswith("Rank 0 on one had come to the end of its script and did not exit")


def test_the_exit_code_of_a_script_that_had_failed_before_is_the_ranks(
    folder: AttemptFolder, watched: tuple[Activity, ExitWatch]
) -> None:
    with exiting(WAITS, folder, code=3) as rank:
        until(lambda: watch(watched, rank))
        rank.end(Exit(None, 9), time.time(), folder)
    assert (rank.exit_code, rank.signal) == (3, None)

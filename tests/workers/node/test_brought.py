"""A node that an engine brought: which token it takes, and when it leaves."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from workers.node import brought
from workers.node.brought import Departure, token_for, token_in
from workers.node.main import parse
from workers.transport.node_config import CannotStart


class Worker:
    """Stands in for the node worker: what of the attempt is over, and whether its ranks were asked to end."""

    def __init__(self) -> None:
        self.is_done = threading.Event()
        self.num_ends = 0
        self.waited_s = 0.0

    def is_done_with(self, attempt: str) -> bool:
        return attempt == "a1" and self.is_done.is_set()

    def end_ranks(self) -> None:
        self.num_ends += 1

    def wait_for_supervisors(self, limit_s: float) -> None:
        self.waited_s = limit_s


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that were sent."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(brought.os, "kill", lambda *words: found.append(words))
    monkeypatch.setattr(brought, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(brought, "READ_S", 0.0)
    return found


def test_each_machine_takes_the_token_at_its_place() -> None:
    assert [token_for("one two", machine) for machine in (0, 1)] == ["one", "two"]
    assert token_for(None, 0) is token_for("", 3) is None
    with pytest.raises(CannotStart, match="for 2 machines, and this is number 2"):
        token_for("one two", 2)


def test_a_token_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "join").write_text("join_one\n")
    assert token_in(tmp_path / "join") == "join_one"
    assert parse(["--for-attempt", "a1", "--join-file", "/run/join"]).join_file == Path("/run/join")
    with pytest.raises(CannotStart, match="cannot be read from"):
        token_in(tmp_path / "gone")


def test_ranks_may_save_for_as_long_as_the_machine_is_there(tmp_path: Path) -> None:
    assert parse(["--for-attempt", "a1", "--grace", "120"]).grace == 120
    for grace_s, waited_s in ((120.0, 115.0), (30.0, 25.0), (2.0, 1.0)):
        worker = Worker()
        Departure(worker, "a1", grace_s).finish(tmp_path / "home")  # type: ignore[arg-type]
        assert worker.waited_s == waited_s


def test_slurm_says_which_machine_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert parse(["--for-attempt", "a1"]).machine == 3
    monkeypatch.delenv("SLURM_PROCID")
    assert parse(["--for-attempt", "a1"]).machine == 0


@pytest.mark.parametrize("text", ["a/b", "..", "a b", "x" * 41])
def test_an_attempt_that_would_be_another_folder_is_refused(text: str) -> None:
    with pytest.raises(SystemExit):
        parse(["--for-attempt", text])


def test_it_leaves_once_the_server_has_everything(killed: list[tuple[int, int]]) -> None:
    worker = Worker()
    departure = Departure(worker, "a1")  # type: ignore[arg-type]
    departure.start()
    departure.join(0.1)
    assert departure.is_alive() and not killed
    worker.is_done.set()
    departure.join(5)
    assert killed == [(os.getpid(), signal.SIGTERM)]
    assert worker.num_ends == 0


def test_a_notice_asks_the_ranks_once_to_save_and_end(killed: list[tuple[int, int]]) -> None:
    worker = Worker()
    departure = Departure(worker, "a1")  # type: ignore[arg-type]
    departure.start()
    for _ in range(3):
        departure.take_notice()
    departure.join(0.2)
    assert worker.num_ends == 1 and departure.is_alive() and not killed
    worker.is_done.set()
    departure.join(5)
    assert len(killed) == 1


def test_its_folder_goes_with_it_where_the_server_has_everything(tmp_path: Path) -> None:
    for is_done in (False, True):
        worker = Worker()
        if is_done:
            worker.is_done.set()
        (tmp_path / "home").mkdir(exist_ok=True)
        Departure(worker, "a1").finish(tmp_path / "home")  # type: ignore[arg-type]
        assert (tmp_path / "home").exists() is not is_done

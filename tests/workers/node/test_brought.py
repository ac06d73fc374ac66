"""A node that an engine brought: which token it takes, and when it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from celery.utils.dispatch import Signal

from workers.node import brought, main
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
        Departure(worker, "a1", tmp_path / "home", grace_s).finish()  # type: ignore[arg-type]
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


def test_it_leaves_once_the_server_has_everything(killed: list[tuple[int, int]], tmp_path: Path) -> None:
    worker = Worker()
    leaving = Departure(worker, "a1", tmp_path)  # type: ignore[arg-type]
    leaving.start()
    leaving.join(0.1)
    assert leaving.is_alive() and not killed
    worker.is_done.set()
    leaving.join(5)
    assert killed == [(os.getpid(), signal.SIGTERM)]
    assert worker.num_ends == 0


def test_a_notice_asks_the_ranks_once_to_save_and_end(killed: list[tuple[int, int]], tmp_path: Path) -> None:
    worker = Worker()
    leaving = Departure(worker, "a1", tmp_path)  # type: ignore[arg-type]
    leaving.start()
    for _ in range(3):
        leaving.take_notice()
    leaving.join(0.2)
    assert worker.num_ends == 1 and leaving.is_alive() and not killed
    worker.is_done.set()
    leaving.join(5)
    assert len(killed) == 1


def test_its_folder_goes_with_it_where_the_server_has_everything(tmp_path: Path) -> None:
    for is_done in (False, True):
        worker = Worker()
        if is_done:
            worker.is_done.set()
        (tmp_path / "home").mkdir(exist_ok=True)
        Departure(worker, "a1", tmp_path / "home").finish()  # type: ignore[arg-type]
        assert (tmp_path / "home").exists() is not is_done


@pytest.mark.parametrize("attempt", ["", "a1"])
def test_a_node_reports_at_sigterm_that_it_is_leaving(
    attempt: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutting_down = Signal()
    for name in ("NodeWorker", "Departure", "CommandReader", "make_app", "register", "signal", "sweep"):
        monkeypatch.setattr(main, name, MagicMock())
    monkeypatch.setattr(main, "worker_shutting_down", shutting_down)
    node, worker = main.NodeWorker.return_value, main.make_app.return_value.Worker.return_value
    worker.start.side_effect = lambda: shutting_down.send("a worker")
    worker.exitcode, node.is_removed = 0, False
    options = main.parse(["--for-attempt", attempt])
    assert main.serve(MagicMock(), tmp_path, "", MagicMock(), options, is_tethered=False) == 0
    node.leave.assert_called_once_with()


def age(folder: Path, seconds: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = brought.alive_file(folder)
    file.touch()
    os.utime(file, times=(file.stat().st_mtime - seconds,) * 2)
    return folder


def test_folders_of_nodes_that_died_are_removed_by_the_next_one_there(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    dead = [age(nodes / f"a{number}-0", brought.KEPT_S + 60) for number in range(brought.MOST + 1)]
    (dead[0] / "attempts").mkdir()
    half_removed = nodes / f"{brought.PREFIX}1"
    half_removed.mkdir()
    alive = age(nodes / "b-0", brought.KEPT_S - 60)
    of_another_kind = nodes / "gpu-1"  # it stays, and may be switched off for long
    of_another_kind.mkdir()
    (nodes / "c-0").symlink_to(dead[1])
    own = nodes / "own-0"
    own.mkdir()
    assert brought.sweep(own) == brought.MOST
    assert brought.sweep(own) == 2
    assert sorted(nodes.iterdir()) == sorted([alive, of_another_kind, own, nodes / "c-0"])
    assert brought.sweep(tmp_path / "gone" / "x-0") == 0


def test_a_node_that_lives_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = age(tmp_path / "a-0", 1_000)
    leaving = Departure(Worker(), "a1", home)  # type: ignore[arg-type]
    leaving.show_alive()
    assert brought.alive_file(home).stat().st_mtime > brought.alive_file(age(tmp_path / "b-0", 500)).stat().st_mtime
    age(home, 1_000)
    leaving.show_alive()  # not twice within a minute
    assert brought.alive_file(home).stat().st_mtime < brought.alive_file(tmp_path / "b-0").stat().st_mtime
    monkeypatch.setattr(brought, "SHOW_EVERY_S", 0.0)
    shutil.rmtree(home)
    Departure(Worker(), "a1", home).show_alive()  # type: ignore[arg-type]  # its folder is gone: no error

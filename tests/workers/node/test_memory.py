"""Memory folders of nodes that were killed for good are removed by the nodes that live, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from workers.node.memory import GONE_AFTER_S, OWNER, open_own_memory, remove_abandoned
from workers.replicas.folders import FOLDER, LIMIT, MemoryFolder, NoMemoryFolder, memory_path

HOLDS_A_LOCK = """
import fcntl, sys, time
with open(sys.argv[1], "ab") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "memory").mkdir()
    return {FOLDER: str(tmp_path / "memory"), LIMIT: str(1 << 20)}


@pytest.fixture
def own(tmp_path: Path, environment: dict[str, str]) -> Iterator[MemoryFolder]:
    (tmp_path / "here").mkdir()
    folder, lock = open_own_memory(tmp_path / "here", environment)
    yield folder
    lock.close()


def killed(home: Path, environment: dict[str, str], *, seconds_ago: float = GONE_AFTER_S + 1) -> Path:
    """Leave what a node worker leaves that was killed: its home, and its folder with a state."""
    home.mkdir(exist_ok=True)
    folder, lock = open_own_memory(home, environment)
    (folder.path / "272bay33uw").mkdir()
    (folder.path / "272bay33uw" / "part").write_bytes(bytes(1000))
    lock.close()
    at = time.time() - seconds_ago
    os.utime(folder.path / OWNER, (at, at))
    return folder.path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process holds a lock on the file."""
    with subprocess.Popen([sys.executable, "-c", HOLDS_A_LOCK, path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"locked\n"
        yield
        process.kill()


def test_the_folder_of_a_node_that_is_gone_is_removed(
    own: MemoryFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    left = killed(tmp_path / "gone", environment)
    remove_abandoned(own.path)
    assert not left.exists() and own.path.is_dir()


def test_one_whose_home_was_deleted_is_removed_at_once(
    own: MemoryFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    left = killed(tmp_path / "gone", environment, seconds_ago=1)
    shutil.rmtree(tmp_path / "gone")
    remove_abandoned(own.path)
    assert not left.exists()


def test_one_that_may_come_back_keeps_its_states(
    own: MemoryFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    left = killed(tmp_path / "back soon", environment, seconds_ago=GONE_AFTER_S / 2)
    remove_abandoned(own.path)
    assert (left / "272bay33uw" / "part").exists()
    folder, lock = open_own_memory(tmp_path / "back soon", environment)
    assert list(folder.runs()) == ["272bay33uw"]
    lock.close()


def test_one_whose_node_worker_lives_stays_however_long_it_was_silent(
    own: MemoryFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    left = killed(tmp_path / "paused", environment)
    with locked(left / OWNER):
        remove_abandoned(own.path)
        assert left.exists()
        with pytest.raises(NoMemoryFolder, match="is held by another process"):
            open_own_memory(tmp_path / "paused", environment)


def test_one_whose_supervisor_lives_stays(own: MemoryFolder, tmp_path: Path, environment: dict[str, str]) -> None:
    left = killed(tmp_path / "orphaned", environment)
    attempt = tmp_path / "orphaned" / "attempts" / "a"
    attempt.mkdir(parents=True)
    (attempt / "order.json").touch()
    with locked(attempt / "lock"):
        remove_abandoned(own.path)
        assert left.exists()
    remove_abandoned(own.path)
    assert not left.exists()


def test_folders_that_no_node_of_this_version_made_stay(
    own: MemoryFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    of_earlier = memory_path(tmp_path / "earlier", environment)
    of_earlier.mkdir()
    strange = memory_path(tmp_path / "strange", environment)
    strange.mkdir()
    (strange / OWNER).write_text("no path")
    remove_abandoned(own.path)
    assert of_earlier.exists() and strange.exists()


def test_a_node_shows_that_it_lives(own: MemoryFolder) -> None:
    os.utime(own.path / OWNER, (0, 0))
    remove_abandoned(own.path)
    assert time.time() - (own.path / OWNER).stat().st_mtime < 60


def test_a_node_that_lives_keeps_others_from_its_folder(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "forks").mkdir()
    folder, lock = open_own_memory(tmp_path / "forks", environment)
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    words = [sys.executable, "-c", script, folder.path / OWNER]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 1
    lock.close()
    assert subprocess.run(words, check=False).returncode == 0

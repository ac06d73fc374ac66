"""Environments on the disk: who may use, build and delete them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.environments.store import (
    DOWNLOADS,
    EnvironmentPlace,
    EnvironmentRecord,
    EnvironmentStore,
    FileLock,
    size_of,
)

HOLDER = """
import sys, time
from pathlib import Path
from workers.environments.store import FileLock
lock = FileLock(Path(sys.argv[1]))
assert lock.take(alone=sys.argv[2] == "alone")
print("held", flush=True)
time.sleep(60)
"""


def built(store: EnvironmentStore, digest: str, size: int, used_at: float, project: str = "p") -> EnvironmentPlace:
    place = store.place(project, digest)
    place.path.mkdir()
    (place.path / "file").write_bytes(bytes(size))
    place.lock.touch()
    os.utime(place.lock, (used_at, used_at))
    place.write_record(EnvironmentRecord(kind="requirements", bytes=size_of(place.path)))
    return place


def test_those_used_least_recently_go_first_and_what_was_downloaded_with_them(tmp_path: Path) -> None:
    store = EnvironmentStore(tmp_path)
    old, new, middle = (built(store, *one) for one in (("a", 100, 1.0), ("b", 100, 3.0), ("c", 100, 2.0)))
    (old.store / DOWNLOADS).mkdir()
    assert store.make_room(300) == []
    assert store.make_room(150) == ["a", "c"]
    assert (old.path.exists(), middle.path.exists(), new.path.exists()) == (False, False, True)
    assert new.record is not None
    assert not (old.store / DOWNLOADS).exists()


def test_one_that_is_used_stays_until_its_user_is_killed(tmp_path: Path) -> None:
    store = EnvironmentStore(tmp_path)
    place = built(store, "a", 100, 1.0)
    words = [sys.executable, "-c", HOLDER, str(place.lock), "together"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert store.make_room(0) == []
        assert place.record is not None
        holder.kill()
    assert store.make_room(0) == ["a"]


def test_what_a_builder_left_that_was_killed_is_removed(tmp_path: Path) -> None:
    store = EnvironmentStore(tmp_path)
    half, whole = store.place("p", "half"), built(store, "whole", 10, 1.0)
    half.path.mkdir()
    builder = FileLock(half.lock)
    assert builder.take(alone=True)
    assert store.remove_unfinished() == []  # it is being built
    builder.release()
    assert store.remove_unfinished() == ["half"]
    assert not half.path.exists()
    assert whole.path.exists()


def test_users_share_and_builders_do_not(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "l"), FileLock(tmp_path / "l")
    assert one.take(alone=True)
    assert not other.take(alone=False)
    assert one.take(alone=False)
    assert other.take(alone=False)
    assert not FileLock(tmp_path / "l").take(alone=True)


def test_a_lock_whose_file_was_deleted_is_taken_anew(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "l"), FileLock(tmp_path / "l")
    assert one.take(alone=True)
    assert not other.take(alone=True)  # it has opened the file
    one.path.unlink()
    one.release()
    assert other.take(alone=True)
    assert not FileLock(tmp_path / "l").take(alone=False)


def test_a_project_does_not_meet_another(tmp_path: Path) -> None:
    store = EnvironmentStore(tmp_path)
    assert store.place("p", "a").folder != store.place("q", "a").folder
    assert store.place("../p", "a").folder.parent == store.root


@pytest.mark.parametrize("text", ["50 GB", "-1", "1e9"])
def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    from workers.node.preparation.orders import limit_bytes

    monkeypatch.setenv("TRAINYARD_ENVIRONMENTS_LIMIT_BYTES", text)
    with pytest.raises(ValueError, match="it is a number of bytes"):
        limit_bytes()

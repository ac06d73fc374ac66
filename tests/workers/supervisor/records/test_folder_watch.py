"""Waiting for files to grow, with inotify and without."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.supervisor.records import log_tail as watching
from workers.supervisor.records.log_tail import FolderWatch


@pytest.fixture(params=["inotify", "polling"])
def watch(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FolderWatch]:
    if request.param == "polling":
        monkeypatch.setattr(watching.sys, "platform", "another")
    watch = FolderWatch(tmp_path)
    assert (watch._inotify < 0) == (request.param == "polling")
    yield watch
    watch.close()


def ends_soon(watch: FolderWatch) -> bool:
    began = time.monotonic()
    watch.wait(20.0)
    return time.monotonic() - began < 10.0


def test_a_file_that_is_made_or_grows_ends_the_wait(watch: FolderWatch, tmp_path: Path) -> None:
    path = tmp_path / "a.1.spool"
    path.write_text("made before the wait, and seen by it")
    assert ends_soon(watch)
    with path.open("a") as file:
        file.write("more")
    assert ends_soon(watch)


def test_another_thread_may_end_the_wait(watch: FolderWatch) -> None:
    thread = threading.Timer(0.05, watch.wake)
    thread.start()
    assert ends_soon(watch)
    thread.join()
    for _ in range(100_000):  # more than a pipe holds: nobody is blocked
        watch.wake()
    assert ends_soon(watch)


def test_a_wait_is_over_when_its_time_is(watch: FolderWatch) -> None:
    watch.wait(0.01)
    watch.wait(-1.0)


def test_nothing_is_left_open(tmp_path: Path) -> None:
    gc.collect()  # what other tests left to it is closed now, not in between
    before = len(list(Path("/proc/self/fd").iterdir()))
    watch = FolderWatch(tmp_path)
    watch.close()
    watch.wake()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_folder_that_is_not_there_is_looked_at_instead(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path / "nowhere")
    assert ends_soon(watch)
    watch.close()

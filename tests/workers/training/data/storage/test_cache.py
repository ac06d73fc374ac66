from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.disks import disk_of_1_mb
from workers.training.data.problems import DataProblem
from workers.training.data.storage import cache
from workers.training.data.storage.cache import cached, entry_name, read_facts, write_facts

PATIENCE_S = 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of 100 kB of which this process uses nothing."""
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRAINYARD_CACHE_LIMIT_BYTES", "100000")
    yield cache.cache_folder()
    let_go()


def let_go() -> None:
    """Use nothing more, as a process that has ended."""
    while cache._held:
        os.close(cache._held.popitem()[1])


def filler(num_bytes: int, calls: list[int] | None = None) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        (folder / "rows").write_bytes(bytes(num_bytes))
        if calls is not None:
            calls.append(num_bytes)

    return build


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_what_is_built_once_is_there_for_all_later_ones(folder: Path) -> None:
    calls: list[int] = []
    first = cached("text of /data, bytes", filler(1000, calls))
    let_go()
    assert cached("text of /data, bytes", filler(1000, calls)) == first
    assert calls == [1000]
    assert (first / "rows").read_bytes() == bytes(1000)
    assert first.parent == folder and first.name.startswith("text-of-data-bytes-")


def test_keys_that_read_alike_are_not_the_same(folder: Path) -> None:
    assert entry_name("a/b") != entry_name("a b")
    assert cached("a/b", filler(1)) != cached("a b", filler(2))


def test_facts_stand_beside_the_arrays(folder: Path) -> None:
    entry = cached("facts", lambda path: write_facts(path, {"num_rows": 3, "classes": ["ä"]}))
    assert read_facts(entry) == {"num_rows": 3, "classes": ["ä"]}


def test_a_build_that_fails_leaves_nothing_and_the_next_may_succeed(folder: Path) -> None:
    def build(path: Path) -> None:
        (path / "half").write_bytes(b"half")
        raise DataProblem("row 7 is no number")

    with pytest.raises(DataProblem, match="row 7 is no number"):
        cached("table", build)
    assert names(folder) == set()
    assert cached("table", filler(10)).is_dir()


def test_an_entry_that_was_cut_short_is_built_anew(folder: Path) -> None:
    calls: list[int] = []
    entry = cached("table", filler(1000, calls))
    let_go()
    os.truncate(entry / "rows", 10)
    assert (cached("table", filler(1000, calls)) / "rows").stat().st_size == 1000
    assert calls == [1000, 1000]


def test_what_is_not_in_use_goes_the_least_recently_used_first(folder: Path) -> None:
    old, older, used = (cached(key, filler(25_000)) for key in ("old", "older", "used"))
    let_go()
    for entry, at in ((old, 200), (older, 100), (used, 50)):
        os.utime(entry, (at, at))
    cached("used", filler(25_000))
    new = cached("new", filler(25_000))
    assert names(folder) == {old.name, used.name, new.name}


def test_what_is_in_use_stays_and_the_limit_is_told(folder: Path) -> None:
    held = cached("held", filler(80_000))
    with pytest.raises(
        DataProblem, match=r"would take .* KiB .* limit is 97\.7 KiB; raise TRAINYARD_CACHE_LIMIT_BYTES"
    ):
        cached("more", filler(40_000))
    assert names(folder) == {held.name}


def test_what_is_known_to_be_too_large_is_refused_before_it_is_built(folder: Path) -> None:
    calls: list[int] = []
    with pytest.raises(DataProblem, match=r"limit is 97\.7 KiB"):
        cached("large", filler(200_000, calls), needed_bytes=200_000)
    assert calls == []


def test_what_can_never_fit_drives_nothing_out(folder: Path) -> None:
    unused = cached("unused", filler(10_000))
    let_go()
    with pytest.raises(DataProblem, match="would take"):
        cached("large", filler(200_000), needed_bytes=200_000)
    assert names(folder) == {unused.name}


def test_what_others_keep_in_the_folder_is_not_counted_and_stays(folder: Path) -> None:
    (folder / "bundles").mkdir()
    (folder / "bundles" / "code").write_bytes(bytes(90_000))
    entry = cached("rows", filler(80_000))
    assert names(folder) == {"bundles", entry.name}


def test_a_limit_that_is_no_number_is_refused_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE_LIMIT_BYTES", "10 GB")
    with pytest.raises(DataProblem, match="TRAINYARD_CACHE_LIMIT_BYTES is '10 GB': it is a number of bytes"):
        cached("any", filler(1))


def test_a_full_disk_makes_room_for_itself_and_else_says_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with disk_of_1_mb(tmp_path / "disk") as disk:
        monkeypatch.setenv("TRAINYARD_CACHE", str(disk))
        monkeypatch.setenv("TRAINYARD_CACHE_LIMIT_BYTES", str(10**9))
        unused = cached("unused", filler(600_000))
        let_go()
        used = cached("used", filler(600_000))
        assert names(disk) == {used.name} and used != unused
        with pytest.raises(DataProblem, match=rf"the disk of the cache {disk} is full: .* needed and .* are free"):
            cached("too much", filler(600_000))
        assert names(disk) == {used.name}
        let_go()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataProblem, match=r"TRAINYARD_CACHE is .*/file/cache, which cannot be made"):
        cached("any", filler(1))


def test_a_guessable_folder_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINYARD_CACHE", raising=False)
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / f"trainyard-cache-{os.getuid()}").mkdir()
    (tmp_path / f"trainyard-cache-{os.getuid()}").chmod(0o777)
    with pytest.raises(DataProblem, match="set TRAINYARD_CACHE"):
        cached("any", filler(1))


def test_many_at_once_build_once(folder: Path) -> None:
    calls: list[int] = []
    threads = [threading.Thread(target=cached, args=("shared", filler(1000, calls))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert calls == [1000]


def build_in_another_process(pipe: Connection) -> None:
    """Build half of an entry, say so, and wait for what will not come."""

    def build(path: Path) -> None:
        (path / "half").write_bytes(bytes(1000))
        pipe.send("half")
        pipe.recv()

    cached("shared", build)


def test_what_a_killed_process_was_building_is_swept_and_built(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=build_in_another_process, args=(theirs,))
    process.start()
    assert mine.poll(PATIENCE_S) and mine.recv() == "half"
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE_S)
    assert len(names(folder)) == 1
    entry = cached("shared", filler(10))
    assert names(folder) == {entry.name}
    assert not (entry / "half").exists()
    mine.close()
    theirs.close()
    process.close()


def use_in_another_process(pipe: Connection) -> None:
    cached("held", filler(60_000))
    pipe.send("held")
    pipe.recv()


def test_what_another_process_uses_is_spared_until_it_ends(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=use_in_another_process, args=(theirs,))
    process.start()
    assert mine.poll(PATIENCE_S) and mine.recv() == "held"
    with pytest.raises(DataProblem, match="would take"):
        cached("more", filler(60_000))
    mine.send("end")
    process.join(PATIENCE_S)
    more = cached("more", filler(60_000))
    assert names(folder) == {more.name}
    mine.close()
    theirs.close()
    process.close()


def use_when_told(pipe: Connection) -> None:
    pipe.recv()
    use_in_another_process(pipe)


def test_who_sees_too_late_that_another_process_has_built_it_does_not_wait_for_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks of a node look at once: one builds, uses it until it ends, and before that waits for the other to come."""
    mine, theirs = multiprocessing.Pipe()
    other = multiprocessing.get_context("fork").Process(target=use_when_told, args=(theirs,))
    other.start()
    look, told = cache._use, list[str]()

    def look_too_early(entry: Path) -> bool:
        if told:
            return look(entry)
        mine.send("go")
        assert mine.poll(PATIENCE_S)
        told.append(mine.recv())
        return False

    monkeypatch.setattr(cache, "_use", look_too_early)
    late = threading.Thread(target=cached, args=("held", filler(10)), daemon=True)
    late.start()
    late.join(PATIENCE_S / 4)
    has_come = not late.is_alive()
    mine.send("end")
    other.join(PATIENCE_S)
    late.join(PATIENCE_S)
    assert told == ["held"] and has_come, "it waits for who uses what it wants to use"

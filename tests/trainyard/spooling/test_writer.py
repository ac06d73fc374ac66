"""Spool files: numbered frames that survive whoever writes them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainyard.contract.records import Begin, Group, Logs, Points
from trainyard.spooling import frames as records
from trainyard.spooling import writer as spool
from trainyard.spooling.reader import SpoolReader
from trainyard.spooling.writer import SpoolLimit, SpoolWriter, read_frames, spool_bytes, spool_files, spool_path


def test_frames_come_back_in_order_and_numbered(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "spool", begin=Begin(rank=3, node="node-a"))
    assert writer.append(Points([])) == 2
    assert writer.append(Logs(3, "stdout", [(1.0, "hello")])) == 3
    writer.close("finish")
    found, offset = read_frames(writer.path)
    assert writer.path.name == f"{writer.producer}.1.spool"
    assert offset == writer.path.stat().st_size
    assert [frame.sequence for frame in found] == [1, 2, 3, 4]
    assert [frame.kind for frame in found] == ["begin", "points", "logs", "end"]
    assert {frame.producer for frame in found} == {writer.producer}
    assert found[0].payload["rank"] == 3 and found[0].payload["pid"] == os.getpid()
    assert found[-1].payload["reason"] == "finish"


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin=Begin())
    _, offset = read_frames(writer.path)
    assert read_frames(writer.path, offset) == ([], offset)
    writer.append(Points([]))
    found, _ = read_frames(writer.path, offset)
    assert [frame.sequence for frame in found] == [2]
    writer.abandon()


def test_a_torn_tail_is_left_for_later(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin=Begin())
    writer.append(Points([]))
    writer.abandon()
    whole = writer.path.read_bytes()
    _, first = records.decode(whole)
    for length in range(first, len(whole)):
        writer.path.write_bytes(whole[:length])
        found, offset = read_frames(writer.path)
        assert ([frame.sequence for frame in found], offset) == ([1], first)


def test_a_corrupt_frame_is_raised_only_when_it_is_the_next(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin=Begin())
    writer.append(Points([]))
    writer.abandon()
    data = bytearray(writer.path.read_bytes())
    data[-1] ^= 1
    writer.path.write_bytes(data)
    found, offset = read_frames(writer.path)
    assert [frame.sequence for frame in found] == [1]
    with pytest.raises(records.BadFrame):
        read_frames(writer.path, offset)


def test_a_full_disk_leaves_no_half_frame_and_the_sequence_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path, begin=Begin())
    real_write = os.write

    def write_half_then_fail(fd: int, data: memoryview) -> int:
        if len(data) > 8:
            return real_write(fd, data[:8])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(spool.os, "write", write_half_then_fail)
        writer.append(Points([Group({"x": "yyy"}, ("a name",), b"", b"", b"")]))
    assert writer.append(Points([])) == 2
    writer.close("exit")
    found, offset = read_frames(writer.path)
    assert [frame.sequence for frame in found] == [1, 2, 3]
    assert offset == writer.path.stat().st_size


def test_a_real_disk_that_is_full_takes_more_once_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(600_000))
    writer = SpoolWriter(small_disk, begin=Begin(), file_bytes=100_000)
    with pytest.raises(OSError, match="No space"):
        while True:
            writer.append(Logs(0, "stdout", [(0.0, "y" * 30_000)]))
    last = writer.sequence
    with pytest.raises(OSError, match="No space"):
        writer.append(Logs(0, "stdout", [(0.0, "y" * 30_000)]))
    filler.unlink()
    assert writer.append(Points([])) == last + 1
    writer.close()
    reader = SpoolReader(small_disk, writer.producer)
    found = reader.read(10**9, spool_files(small_disk)[writer.producer])
    assert [frame.sequence for frame in found] == list(range(1, last + 3))
    assert not any(frame.kind == "damaged" for frame in found)


def test_a_full_file_gets_a_successor_and_is_never_written_again(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin=Begin(), file_bytes=200)
    first = writer.path
    writer.append(Logs(0, "stdout", [(0.0, "y" * 300)]))
    before = first.read_bytes()
    writer.append(Points([]))
    assert writer.path.name == f"{writer.producer}.2.spool" and first.read_bytes() == before
    assert spool_files(tmp_path) == {writer.producer: [1, 2]}
    assert spool_bytes(tmp_path) == writer.num_bytes
    writer.abandon()


def test_where_no_successor_can_be_made_the_frame_is_refused_and_the_file_stays_whole(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin=Begin(), file_bytes=1)
    blocker = spool_path(tmp_path, writer.producer, 2)
    blocker.write_text("in the way")
    with pytest.raises(FileExistsError):
        writer.append(Points([]))
    blocker.unlink()
    assert writer.append(Points([])) == 2
    writer.abandon()


def test_the_limit_is_for_all_files_of_the_folder_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "1000")
    limit = SpoolLimit(tmp_path)
    assert limit.has_room()
    spool_path(tmp_path, "a", 1).write_bytes(bytes(600))
    spool_path(tmp_path, "b", 1).write_bytes(bytes(600))
    (tmp_path / "ledger.json").write_bytes(bytes(5000))
    assert not SpoolLimit(tmp_path).has_room()
    assert limit.has_room(), "it looks again after a second, or after another MiB"
    assert not limit.has_room(2_000_000)
    spool_path(tmp_path, "a", 1).unlink()
    monkeypatch.setattr(spool, "LOOK_EVERY_S", 0.0)
    assert limit.has_room()


def test_files_of_others_are_no_spools(tmp_path: Path) -> None:
    for name in ("ledger.json", "a.spool", "a.x.spool", ".1.spool", "a.1.spool.new"):
        (tmp_path / name).write_text("")
    assert spool_files(tmp_path) == {}
    assert spool_files(tmp_path / "nowhere") == {} and spool_bytes(tmp_path / "nowhere") == 0


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        SpoolWriter(tmp_path / "file" / "spool", begin=Begin())


def test_nobody_else_can_read_a_spool(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin=Begin())
    writer.close()
    assert writer.path.stat().st_mode & 0o777 == 0o600
    writer.close()  # closing again does nothing

"""Spool files: numbered frames that survive whoever writes them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainyard import records, spool
from trainyard.spool import SpoolWriter, read_frames


def test_frames_come_back_in_order_and_numbered(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "spool", begin={"rank": 3, "node": "node-a", "role": "rank"})
    assert writer.append({"t": "points", "g": []}) == 2
    assert writer.append({"rank": 3, "stream": "stdout", "lines": [[1.0, "hello"]]}) == 3
    writer.close("finish")
    found, offset = read_frames(writer.path)
    assert writer.path.name == f"{writer.producer}.spool"
    assert offset == writer.path.stat().st_size
    assert [frame.sequence for frame in found] == [1, 2, 3, 4]
    assert [frame.kind for frame in found] == ["begin", "points", "logs", "end"]
    assert {frame.producer for frame in found} == {writer.producer}
    assert found[0].payload["rank"] == 3 and found[0].payload["pid"] == os.getpid()
    assert found[-1].payload["reason"] == "finish"


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin={})
    _, offset = read_frames(writer.path)
    assert read_frames(writer.path, offset) == ([], offset)
    writer.append({"t": "points", "g": []})
    found, _ = read_frames(writer.path, offset)
    assert [frame.sequence for frame in found] == [2]
    writer.abandon()


def test_a_torn_tail_is_left_for_later(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin={})
    writer.append({"t": "points", "g": []})
    writer.abandon()
    whole = writer.path.read_bytes()
    _, first = records.decode(whole)
    for length in range(first, len(whole)):
        writer.path.write_bytes(whole[:length])
        found, offset = read_frames(writer.path)
        assert ([frame.sequence for frame in found], offset) == ([1], first)


def test_a_corrupt_frame_is_raised_only_when_it_is_the_next(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin={})
    writer.append({"t": "points", "g": []})
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
    writer = SpoolWriter(tmp_path, begin={})
    real_write = os.write

    def write_half_then_fail(fd: int, data: memoryview) -> int:
        if len(data) > 8:
            return real_write(fd, data[:8])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(spool.os, "write", write_half_then_fail)
        writer.append({"t": "points", "g": [[{}, ["a name"], b"", b"", b""]], "x": "y" * 3})
    assert writer.append({"t": "points", "g": []}) == 2
    writer.close("exit")
    found, offset = read_frames(writer.path)
    assert [frame.sequence for frame in found] == [1, 2, 3]
    assert offset == writer.path.stat().st_size


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        SpoolWriter(tmp_path / "file" / "spool", begin={})


def test_nobody_else_can_read_a_spool(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, begin={})
    writer.close()
    assert writer.path.stat().st_mode & 0o777 == 0o600
    writer.close()  # closing again does nothing

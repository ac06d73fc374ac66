"""Reading a spool back: file by file, behind any sequence, and past whatever the disk did to it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frames import encode, frames
from trainyard.contract.records import Begin, Logs
from trainyard.spooling import frames as records
from trainyard.spooling import plain_files
from trainyard.spooling.frames import BadFrame, Frame, Head, head
from trainyard.spooling.reader import READ_BYTES, SpoolReader, last_sequences
from trainyard.spooling.writer import SpoolWriter, spool_files, spool_path

PRODUCER = "a" * 32
NO_GROUPS = {"t": "points", "g": []}


def write(folder: Path, num_frames: int, *, file_bytes: int = 10_000, size: int = 1000) -> SpoolWriter:
    """A spool with one begin frame and ``num_frames`` others of about ``size`` bytes, not ended."""
    writer = SpoolWriter(folder, producer=PRODUCER, begin=Begin(), file_bytes=file_bytes)
    for number in range(num_frames):
        writer.append(Logs(0, "stdout", [(float(number), "x" * size)]))
    return writer


def numbers(folder: Path) -> list[int]:
    return spool_files(folder).get(PRODUCER, [])


def read_all(reader: SpoolReader, *, is_over: bool = False, room: int = 3000) -> list[Frame]:
    found: list[Frame] = []
    while frames := reader.read(room, numbers(reader.folder), is_over=is_over):
        found += frames
    return found


def sequences(frames: list[Frame]) -> list[int]:
    return [frame.sequence for frame in frames]


def test_a_spool_of_many_files_is_read_in_order(tmp_path: Path) -> None:
    writer = write(tmp_path, 50)
    writer.close()
    assert len(numbers(tmp_path)) > 4
    assert all(spool_path(tmp_path, PRODUCER, number).stat().st_size < 12_000 for number in numbers(tmp_path))
    reader = SpoolReader(tmp_path, PRODUCER)
    found = read_all(reader)
    assert sequences(found) == list(range(1, 53))
    assert [frame.kind for frame in found] == ["begin", *["logs"] * 50, "end"]
    assert reader.has_ended
    whole = b"".join(spool_path(tmp_path, PRODUCER, number).read_bytes() for number in numbers(tmp_path))
    assert b"".join(frame.raw for frame in found) == whole
    assert [file.last for file in reader.passed] == sorted({file.last for file in reader.passed})
    assert last_sequences(tmp_path) == {PRODUCER: 52}


def test_reading_follows_the_writer_into_the_next_file(tmp_path: Path) -> None:
    writer = write(tmp_path, 0, file_bytes=2000)
    reader = SpoolReader(tmp_path, PRODUCER)
    seen = sequences(read_all(reader))
    for number in range(10):
        writer.append(Logs(0, "stdout", [(0.0, "y" * 700)]))
        seen += sequences(read_all(reader))
        assert seen == list(range(1, number + 3))
    assert len(numbers(tmp_path)) > 3


def test_each_read_takes_what_has_room_and_one_frame_at_least(tmp_path: Path) -> None:
    write(tmp_path, 20)
    reader = SpoolReader(tmp_path, PRODUCER)
    assert len(reader.read(1, numbers(tmp_path))) == 1
    assert 4 <= len(reader.read(4000, numbers(tmp_path))) <= 5


def test_going_back_reads_again_from_behind_a_sequence(tmp_path: Path) -> None:
    write(tmp_path, 50).close()
    reader = SpoolReader(tmp_path, PRODUCER)
    read_all(reader)
    for after in (51, 30, 0, 17):
        reader.go_back(after)
        assert sequences(read_all(reader)) == list(range(after + 1, 53))


def test_a_reader_may_begin_behind_what_is_known(tmp_path: Path) -> None:
    write(tmp_path, 50).close()
    spool_path(tmp_path, PRODUCER, 1).unlink()
    assert sequences(read_all(SpoolReader(tmp_path, PRODUCER, after=20))) == list(range(21, 53))


def test_a_torn_tail_is_read_once_it_is_whole_and_cut_when_nobody_writes_it_any_more(tmp_path: Path) -> None:
    writer = write(tmp_path, 3)
    whole = writer.path.read_bytes()
    every = list(frames(whole))
    start = len(whole) - len(every[-1].raw)
    for end in (start + 1, start + 7, start + 9, len(whole) - 1):
        writer.path.write_bytes(whole[:end])
        reader = SpoolReader(tmp_path, PRODUCER)
        assert sequences(read_all(reader)) == [1, 2, 3]
        writer.path.write_bytes(whole)
        assert sequences(read_all(reader)) == [4]
        writer.path.write_bytes(whole[:end])
        reader.go_back(0)
        assert sequences(read_all(reader, is_over=True)) == [1, 2, 3]
        assert last_sequences(tmp_path) == {PRODUCER: 3}


@pytest.mark.parametrize("where", ["length", "checksum", "head", "body"])
@pytest.mark.parametrize("victim", [1, 2, 30, 52])
def test_a_damaged_frame_is_replaced_by_one_that_says_so(tmp_path: Path, where: str, victim: int) -> None:
    write(tmp_path, 50).close()
    before = {frame.sequence: frame for frame in read_all(SpoolReader(tmp_path, PRODUCER))}
    raw = before[victim].raw
    bad = bytearray(raw)
    place = {"length": 2, "checksum": 5, "head": 12, "body": len(raw) - 3}[where]
    for number in numbers(tmp_path):
        path = spool_path(tmp_path, PRODUCER, number)
        data = bytearray(path.read_bytes())
        if (start := data.find(raw)) >= 0:
            data[start + place] ^= 0xFF
            bad[place] ^= 0xFF
            path.write_bytes(data)
    found = read_all(SpoolReader(tmp_path, PRODUCER), is_over=True)
    assert sequences(found) == list(range(1, 53))
    assert last_sequences(tmp_path) == {PRODUCER: 52}
    for frame in found:
        if frame.sequence != victim:
            assert frame == before[frame.sequence]
    [damaged] = [frame for frame in found if frame.kind == "damaged"]
    payload = records.decode(damaged.raw)[0].payload
    assert payload["why"] == "damaged on the node's disk" and payload["data"] == bytes(bad)


def test_a_file_that_is_gone_leaves_a_frame_for_each_that_it_held(tmp_path: Path) -> None:
    write(tmp_path, 50).close()
    spool_path(tmp_path, PRODUCER, 3).unlink()
    found = read_all(SpoolReader(tmp_path, PRODUCER))
    assert sequences(found) == list(range(1, 53))
    missing = [frame for frame in found if frame.kind == "damaged"]
    assert 5 <= len(missing) <= 15
    assert records.decode(missing[0].raw)[0].payload["why"] == "missing on the node's disk"


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_to_the_bytes_no_sequence_is_left_out(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    write(tmp_path, 60, size=300).close()
    for _ in range(chance.randint(1, 6)):
        path = spool_path(tmp_path, PRODUCER, chance.choice(numbers(tmp_path)))
        data = bytearray(path.read_bytes())
        start = chance.randrange(len(data))
        kind = chance.choice(["zeros", "noise", "cut", "insert"])
        length = chance.randint(1, 900)
        if kind == "zeros":
            data[start : start + length] = bytes(len(data[start : start + length]))
        elif kind == "noise":
            data[start : start + length] = chance.randbytes(len(data[start : start + length]))
        elif kind == "cut":
            del data[start : start + length]
        else:
            data[start:start] = chance.randbytes(length)
        path.write_bytes(data)
    found = read_all(SpoolReader(tmp_path, PRODUCER), is_over=True)
    assert sequences(found) == list(range(1, len(found) + 1))
    assert last_sequences(tmp_path) == {PRODUCER: len(found)}
    assert len([frame for frame in found if frame.kind != "damaged"]) > 20
    assert read_all(SpoolReader(tmp_path, PRODUCER), is_over=True) == found, "the same once more"


def test_another_producers_frames_and_wild_sequences_are_damage(tmp_path: Path) -> None:
    writer = write(tmp_path, 0, file_bytes=10**9)
    with writer.path.open("ab") as file:
        file.write(encode({"p": "b" * 32, "q": 2, **NO_GROUPS}))
        file.write(encode({"p": PRODUCER, "q": 2**40, **NO_GROUPS}))
        file.write(encode({"p": PRODUCER, "q": 3, **NO_GROUPS}))
    found = read_all(SpoolReader(tmp_path, PRODUCER))
    assert [(frame.sequence, frame.kind) for frame in found] == [(1, "begin"), (2, "damaged"), (3, "points")]


def test_a_reader_holds_no_more_than_the_largest_frame(tmp_path: Path) -> None:
    write(tmp_path, 40, size=100_000, file_bytes=10**9)
    reader = SpoolReader(tmp_path, PRODUCER)
    while reader.read(1, numbers(tmp_path)):
        assert len(reader._data) <= READ_BYTES


@pytest.mark.parametrize("sequence", [1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62])
def test_the_head_of_a_frame_is_what_its_payload_says(sequence: int) -> None:
    raw = encode({"t": "points", "g": [], "q": sequence, "p": PRODUCER})
    assert head(raw[records.HEADER.size :]) == Head(PRODUCER, sequence, "points")


def test_a_head_in_another_order_is_found_too() -> None:
    import msgpack

    body = msgpack.packb({"g": [], "t": "points", "q": 7, "p": PRODUCER})
    assert head(body) == Head(PRODUCER, 7, "points")
    for bad in (b"", b"x" * 100, msgpack.packb([1]), msgpack.packb({"p": 1, "q": 2, "t": "x"})):
        with pytest.raises(BadFrame):
            head(bad)


def test_a_reader_beside_a_quick_writer_misses_nothing(tmp_path: Path) -> None:
    """The writer goes on to new files all the time; the list of files is always older than what is read."""
    code = (
        "import pathlib, sys; from trainyard.spooling.writer import SpoolWriter\n"
        "from trainyard.contract.records import Begin, Logs\n"
        "writer = SpoolWriter(pathlib.Path(sys.argv[1]), producer='a' * 32, begin=Begin(), file_bytes=3000)\n"
        "for number in range(20_000): writer.append(Logs(0, 'stdout', [(0.0, 'y' * (number % 500))]))\n"
        "writer.close()\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    reader = SpoolReader(tmp_path, PRODUCER)
    found: list[Frame] = []
    while not reader.has_ended and (writer.poll() in (None, 0)):
        found += reader.read(50_000, numbers(tmp_path))
    assert writer.wait() == 0
    assert sequences(found) == list(range(1, 20_003))
    assert not any(frame.kind == "damaged" for frame in found)
    assert len(reader.passed) > 1000


@pytest.mark.skipif(os.geteuid() != 0, reason="to others the owner is nothing that is looked at")
@pytest.mark.parametrize("is_guarded", [True, False])
def test_roots_file_with_a_second_name_is_read_where_no_script_can_have_made_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_guarded: bool
) -> None:
    monkeypatch.setattr(plain_files, "are_hard_links_guarded", lambda: is_guarded)
    (spool := tmp_path / "spool").mkdir()
    os.chown(spool, 12345, 12345)
    (spool / "roots").write_text("of the supervisor")
    (spool / "backup").hardlink_to(spool / "roots")
    if is_guarded:
        with plain_files.open_plain(spool / "roots") as file:
            assert file.read() == b"of the supervisor"
    else:
        with pytest.raises(OSError, match="no regular file of its folder's user"):
            plain_files.open_plain(spool / "roots")

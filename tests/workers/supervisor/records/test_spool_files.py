"""Spools of many files on their way to the server: deleted behind the watermark, and never taken for lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis
from msgspec.structs import replace

from tests.frames import frames
from tests.servers import Valkey
from tests.workers.stream import KEY, ORDER, arrived, log_line, say, ship_all
from trainyard.contract.records import Begin, Points, Record
from trainyard.contract.seals import stream_key
from trainyard.spooling.frames import Frame
from trainyard.spooling.ledger import Ledger
from trainyard.spooling.reader import last_sequences
from trainyard.spooling.writer import SpoolWriter, spool_files
from workers.attempt.folder import AttemptFolder
from workers.supervisor.contact import Contact
from workers.supervisor.records import log_tail as logs
from workers.supervisor.records import shipper as shipping
from workers.supervisor.records.shipper import Shipper

PRODUCER = "a" * 32


class OddLogs(Record, tag="logs"):
    """What is called lines of a log, and is none."""

    offset: object
    rank: list[int] = []  # noqa: RUF012  # msgspec makes a new one for each struct


def fill(folder: Path, num_lines: int, *, file_bytes: int = 400) -> SpoolWriter:
    """Frames of about 100 bytes."""
    writer = SpoolWriter(folder, producer=PRODUCER, begin=Begin(rank=0), file_bytes=file_bytes)
    for number in range(num_lines):
        writer.append(log_line(f"line {number}", number + 1))
    return writer


def frames_of(path: Path) -> list[Frame]:
    return list(frames(path.read_bytes()))


def hear(client: redis.Redis, contact: Contact, shipper: Shipper, **entry: object) -> None:
    """What a second does: hear what the server says, go back where needed, delete what it has."""
    say(client, **entry)  # type: ignore[arg-type]
    contact.exchange(None)
    shipper.look_back()
    shipper.clean()


def sequences(client: redis.Redis) -> list[int]:
    return [frame.sequence for frame in arrived(client)]


def test_files_go_once_the_server_has_them_and_they_have_a_successor(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    writer = fill(tmp_path, 20)
    ship_all(shipper)
    assert sequences(client) == list(range(1, 22))
    num_files = len(spool_files(tmp_path)[PRODUCER])
    hear(client, contact, shipper, watermarks={PRODUCER: 10})
    left = spool_files(tmp_path)[PRODUCER]
    assert 0 < len(left) < num_files and Ledger(tmp_path).through(PRODUCER) <= 10
    hear(client, contact, shipper, watermarks={PRODUCER: 21})
    assert spool_files(tmp_path)[PRODUCER] == [num_files], "the one that is written stays"
    writer.append(log_line("more"))
    writer.close()
    ship_all(shipper)
    hear(client, contact, shipper, watermarks={PRODUCER: 22})
    assert PRODUCER in spool_files(tmp_path), "the end has not arrived"
    hear(client, contact, shipper, watermarks={PRODUCER: 23})
    assert spool_files(tmp_path) == {}
    assert last_sequences(tmp_path) == {PRODUCER: 23}


def test_nothing_is_deleted_that_was_not_sent_from_here(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    fill(tmp_path, 20).close()
    hear(client, contact, shipper, watermarks={PRODUCER: 22})
    assert len(spool_files(tmp_path)[PRODUCER]) > 3


def test_who_comes_after_knows_that_the_prefix_is_committed(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    fill(tmp_path, 20)
    ship_all(shipper)
    hear(client, contact, shipper, watermarks={PRODUCER: 12})
    deleted = Ledger(tmp_path).through(PRODUCER)
    assert 6 < deleted <= 12
    client.delete(stream_key(0))
    successor = Shipper(client, KEY, ORDER, tmp_path, Contact(client, KEY, ORDER))
    ship_all(successor)
    assert sequences(client) == list(range(deleted + 1, 22))
    assert not any(frame.kind == "damaged" for frame in arrived(client))


def test_a_resend_begins_where_the_files_begin(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    fill(tmp_path, 20)
    ship_all(shipper)
    hear(client, contact, shipper, watermarks={PRODUCER: 12})
    client.delete(stream_key(0))
    hear(client, contact, shipper, epoch="2", watermarks={PRODUCER: 12})
    ship_all(shipper)
    assert sequences(client) == list(range(13, 22))


def test_a_server_that_asks_for_what_was_deleted_hears_that_it_is_gone(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    fill(tmp_path, 20)
    ship_all(shipper)
    hear(client, contact, shipper, watermarks={PRODUCER: 12})
    deleted = Ledger(tmp_path).through(PRODUCER)
    client.delete(stream_key(0))
    restored = Contact(client, KEY, ORDER)  # the server's database is one from yesterday
    successor = Shipper(client, KEY, ORDER, tmp_path, restored)
    ship_all(successor)
    client.delete(stream_key(0))
    hear(client, restored, successor, watermarks={PRODUCER: 3}, resend=[PRODUCER])
    ship_all(successor)
    assert sequences(client) == list(range(4, 22))
    gone = [frame.sequence for frame in arrived(client) if frame.kind == "damaged"]
    assert gone == list(range(4, deleted + 1))


def test_damaged_bytes_reach_the_server_as_a_frame_that_says_so(
    client: redis.Redis, shipper: Shipper, tmp_path: Path
) -> None:
    writer = fill(tmp_path, 5, file_bytes=10**9)
    writer.close()
    data = bytearray(writer.path.read_bytes())
    data[data.index(b"line 2")] ^= 1
    writer.path.write_bytes(data)
    ship_all(shipper)
    assert sequences(client) == list(range(1, 8))
    assert [frame.sequence for frame in arrived(client) if frame.kind == "damaged"] == [4]


def test_what_a_supervisor_read_is_not_read_again_when_its_spool_was_deleted(
    client: redis.Redis, contact: Contact, tmp_path: Path
) -> None:
    folder = AttemptFolder(tmp_path / "a")
    order = replace(ORDER, node_name="one")
    folder.create(order)
    log = folder.stream_path(0, "stdout")
    log.write_text("".join(f"line {number}\n" for number in range(50)))
    tail = logs.LogTail(log, 0, "stdout")
    writer = SpoolWriter(folder.spool, producer=PRODUCER, begin=Begin(), file_bytes=1)
    while tail.move(writer):
        pass
    writer.append(Points([]))
    shipper = Shipper(client, KEY, ORDER, folder.spool, contact)
    ship_all(shipper)
    hear(client, contact, shipper, watermarks={PRODUCER: writer.sequence})
    assert len(spool_files(folder.spool)[PRODUCER]) == 1
    with log.open("a") as file:
        file.write("after its death\n")
    client.delete(stream_key(0))
    logs.save_unread_output(order, folder)
    ship_all(Shipper(client, KEY, ORDER, folder.spool, contact))
    lines = [text for frame in arrived(client) if frame.kind == "logs" for _, text in frame.payload["lines"]]
    assert lines == ["after its death"]


def test_a_rank_may_write_anything_here_and_harms_no_other(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / f"{'b' * 32}.1.spool")
    (tmp_path / f"{'c' * 32}.1.spool").mkdir()
    (tmp_path / f"{'d' * 32}.1.spool").write_bytes(os.urandom(5000))
    odd = SpoolWriter(tmp_path, producer="e" * 32, begin=Begin())
    odd.append(OddLogs(offset="far"))  # type: ignore[arg-type]
    odd.append(OddLogs(offset=2**70 % 2**60))  # type: ignore[arg-type]
    odd.close()
    writer = fill(tmp_path, 20)
    ship_all(shipper)
    hear(client, contact, shipper, watermarks={PRODUCER: 21, "e" * 32: 4})
    assert {frame.sequence for frame in arrived(client) if frame.producer == PRODUCER} == set(range(1, 22))
    files = spool_files(tmp_path)
    assert files[PRODUCER] == [writer.number] and "e" * 32 not in files


def test_a_stream_that_takes_much_memory_makes_the_shipper_wait(
    client: redis.Redis, shipper: Shipper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "STREAM_LIMIT_BYTES", 100_000)
    monkeypatch.setattr(shipping, "ROOM_KNOWN_S", 0.0)
    client.xadd(stream_key(0), {"d": bytes(200_000)})
    fill(tmp_path, 3)
    assert not shipper.step() and shipper.is_blocked
    client.delete(stream_key(0))
    ship_all(shipper)
    assert sequences(client) == [1, 2, 3, 4]


def test_a_server_that_does_not_tell_the_bytes_is_held_to_the_entries(
    valkey: Valkey, client: redis.Redis, contact: Contact, tmp_path: Path
) -> None:
    client.acl_setuser("modest", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-memory"])
    modest = redis.Redis(unix_socket_path=str(valkey.socket), username="modest", password="any")
    fill(tmp_path, 3)
    ship_all(Shipper(modest, KEY, ORDER, tmp_path, contact))
    assert sequences(client) == [1, 2, 3, 4]
    client.acl_setuser("modest", commands=["-xlen"])
    fill(tmp_path / "more", 1)
    with pytest.raises(redis.ResponseError):
        Shipper(modest, KEY, ORDER, tmp_path / "more", contact).step()
    client.acl_deluser("modest")
    modest.close()


def test_many_producers_are_served_in_turn(
    client: redis.Redis, shipper: Shipper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "MAX_BATCHES", 1)
    monkeypatch.setattr(shipping, "BATCH_BYTES", 1000)
    for number in range(5):
        writer = SpoolWriter(tmp_path, producer=f"{number:032x}", begin=Begin())
        for _ in range(50):
            writer.append(log_line("x" * 100))
    for _ in range(5):
        assert shipper.step() and shipper.has_more
    assert len({frame.producer for frame in arrived(client)}) == 5
    ship_all(shipper)
    assert len(arrived(client)) == 5 * 51
    assert len({(frame.producer, frame.sequence) for frame in arrived(client)}) == 5 * 51


def test_a_line_of_100_mb_with_invalid_bytes_travels_in_pieces_and_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.stdout"
    piece = b"z" * 1_000_000 + b"\xff\xfe"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(piece)
        file.write(b"\nshort\n")
    tail = logs.LogTail(path, 0, "stdout")
    writer = SpoolWriter(tmp_path / "spool", producer=PRODUCER, begin=Begin())
    longest = num_chars = num_bad = 0
    lines: list[str] = []
    while tail.move(writer):
        pass
    for number in spool_files(tmp_path / "spool")[PRODUCER]:
        lines_path = tmp_path / "spool" / f"{PRODUCER}.{number}.spool"
        for frame in frames_of(lines_path):
            longest = max(longest, len(frame.raw))
            lines = [text for _, text in frame.payload.get("lines", [])]
            num_chars += sum(map(len, lines))
            num_bad += sum(text.count("\ufffd") for text in lines)
    assert longest <= 256 * 1024
    assert (num_chars, num_bad) == (100 * 1_000_002 + 5, 200)
    assert lines[-1] == "short"


def test_a_flood_of_empty_lines_makes_no_frame_too_large(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.stdout"
    path.write_bytes(b"\n" * 100_000)
    tail = logs.LogTail(path, 0, "stdout")
    writer = SpoolWriter(tmp_path / "spool", producer=PRODUCER, begin=Begin(), file_bytes=10**9)
    while tail.move(writer):
        pass
    found = frames_of(writer.path)
    assert sum(len(frame.payload.get("lines", [])) for frame in found) == 100_000
    assert all(len(frame.raw) <= 256 * 1024 for frame in found)

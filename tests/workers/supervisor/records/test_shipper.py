"""Frames on their way from the spool to the stream: nothing is lost, whatever happens to Valkey."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import redis
from msgspec.structs import replace

from tests.servers import Valkey
from tests.workers.stream import KEY, ORDER, arrived, fill, log_line, say, ship_all
from trainyard.contract.locks import unlock_bytes
from trainyard.contract.seals import LOCKED, frames_scope, stream_key
from trainyard.contract.statuses import Phase
from trainyard.spooling.reader import last_sequences
from workers.supervisor.contact import Contact
from workers.supervisor.records import shipper as shipping
from workers.supervisor.records.shipper import Shipper
from workers.supervisor.reports import make_report
from workers.supervisor.valkey_thread import ValkeyThread


def test_every_frame_arrives_once_and_in_order(client: redis.Redis, shipper: Shipper, tmp_path: Path) -> None:
    writer = fill(tmp_path, 10)
    ship_all(shipper)
    writer.append(log_line("later"))
    writer.close()
    ship_all(shipper)
    assert [frame.sequence for frame in arrived(client)] == list(range(1, 14))


def test_batches_stay_below_their_size_and_a_larger_frame_travels_alone(
    client: redis.Redis, shipper: Shipper, tmp_path: Path
) -> None:
    writer = fill(tmp_path, 0)
    for _ in range(10):
        writer.append(log_line("x" * 60_000))
    writer.append(log_line("y" * 400_000))
    ship_all(shipper)
    sizes = [len(entry[b"d"]) for _, entry in client.xrange(stream_key(0))]  # type: ignore[union-attr]
    assert all(size <= shipping.BATCH_BYTES for size in sizes[:-1])
    assert sizes[-1] > 400_000
    assert len(arrived(client)) == 12


def test_a_wiped_valkey_gets_everything_behind_the_watermark_again(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    writer = fill(tmp_path, 10)
    say(client, "1", watermarks={writer.producer: 4})
    contact.exchange(None)
    shipper.look_back()
    ship_all(shipper)
    client.flushall()
    contact.exchange(None)
    shipper.look_back()  # no epoch is no news: the server has not come back yet
    assert not shipper.step()
    say(client, "2", watermarks={writer.producer: 4})
    contact.exchange(None)
    shipper.look_back()
    ship_all(shipper)
    assert [frame.sequence for frame in arrived(client)] == list(range(5, 12))


def test_the_server_may_ask_for_a_producer_again(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    writer = fill(tmp_path, 5)
    ship_all(shipper)
    client.delete(stream_key(0))
    say(client, watermarks={writer.producer: 2}, resend=[writer.producer])
    contact.exchange(None)
    shipper.look_back()
    shipper.look_back()  # the document says it every second until the gap is closed
    ship_all(shipper)
    assert [frame.sequence for frame in arrived(client)] == [3, 4, 5, 6]


def test_a_watermark_that_stands_still_beside_an_empty_stream_sends_again(
    client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 5)
    ship_all(shipper)
    say(client)
    contact.exchange(None)
    monkeypatch.setattr(shipping, "STANDSTILL_S", 0.0)
    shipper.look_back()
    assert not shipper.step(), "the stream still has it: ingest is slow, nothing is lost"
    client.delete(stream_key(0))
    shipper.look_back()
    ship_all(shipper)
    assert len(arrived(client)) == 6


def test_a_full_stream_makes_the_shipper_wait(
    client: redis.Redis, shipper: Shipper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "STREAM_LIMIT_ENTRIES", 1)
    client.xadd(stream_key(0), {"other": "run"})
    fill(tmp_path, 3)
    assert not shipper.step()
    client.delete(stream_key(0))
    ship_all(shipper)
    assert len(arrived(client)) == 4


def test_a_valkey_that_is_killed_and_comes_back_empty_loses_nothing(
    valkey: Valkey, client: redis.Redis, contact: Contact, shipper: Shipper, tmp_path: Path
) -> None:
    thread = ValkeyThread(contact, shipper, lambda: make_report(ORDER, at=1.0, phase=Phase.RUNNING))
    thread.start()
    writer = fill(tmp_path, 3)
    say(client, "1")
    while contact.epoch != "1":
        time.sleep(0.01)
    valkey.kill()
    writer.append(log_line("while it was away"))
    writer.close()
    valkey.start()
    client.flushall()
    say(client, "2")
    last = {writer.producer: writer.sequence}
    while len({frame.sequence for frame in arrived(client)}) < writer.sequence:
        time.sleep(0.05)
    say(client, "2", watermarks=last)
    assert thread.finish(last, limit_s=30.0)


def test_the_valkey_thread_gives_up_in_the_end(contact: Contact, shipper: Shipper, tmp_path: Path) -> None:
    writer = fill(tmp_path, 3)
    thread = ValkeyThread(contact, shipper, lambda: make_report(ORDER, at=1.0, phase=Phase.ENDED))
    thread.start()
    assert not thread.finish({writer.producer: writer.sequence}, limit_s=0.3)


def test_the_last_sequence_is_that_of_the_last_whole_frame(tmp_path: Path) -> None:
    writer = fill(tmp_path, 4)
    assert last_sequences(tmp_path) == {writer.producer: 5}
    whole = writer.path.read_bytes()
    for torn in (whole[:-3], whole + whole[:5], whole + whole[:20], whole + bytes(8)):
        writer.path.write_bytes(torn)
        assert last_sequences(tmp_path) == {writer.producer: 4 if torn == whole[:-3] else 5}
    writer.path.write_bytes(b"")
    assert last_sequences(tmp_path) == {}


def test_frames_of_a_project_that_encrypts_travel_locked(client: redis.Redis, contact: Contact, tmp_path: Path) -> None:
    order = replace(ORDER, encrypts=True)
    writer = fill(tmp_path, 0)
    writer.append(log_line("secret words"))
    ship_all(Shipper(client, KEY, order, tmp_path, contact))
    ((_, entry),) = client.xrange(stream_key(0))  # type: ignore[union-attr,misc]
    scope = frames_scope(order.node, order.run, order.fence)
    assert entry[b"e"] == LOCKED.encode() and b"secret words" not in entry[b"d"]
    assert b"secret words" in unlock_bytes(KEY, scope, entry[b"d"])

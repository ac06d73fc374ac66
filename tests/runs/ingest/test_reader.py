from __future__ import annotations

import pytest
from redis.exceptions import RedisError

from runs.ingest import reader
from runs.ingest.reader import Reader
from runs.serving.transport import redis
from tests.servers import Valkey


@pytest.fixture
def shard(valkey: Valkey) -> Reader:
    made = Reader(7)
    redis().delete(made.stream)
    made.make_group()
    made.make_group()  # again, as after each restart
    assert made.read(0.0) == []  # nothing is pending
    return made


def test_a_key_of_another_type_gives_way_to_the_stream(shard: Reader) -> None:
    redis().set(shard.stream, "in the way")
    with pytest.raises(RedisError):
        shard.read(0.0)
    shard.make_group()
    fill(shard.stream, 1, 10)
    assert len(shard.read(0.0)) == 1


def fill(stream: str, count: int, size: int) -> None:
    for _ in range(count):
        redis().xadd(stream, {"d": b"x" * size})


def test_small_entries_are_read_together_up_to_a_number(shard: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "ROUND_ENTRIES", 3 * reader.READ_ENTRIES)
    fill(shard.stream, 4 * reader.READ_ENTRIES + 1, 10)
    assert [len(shard.read(0.0)) for _ in range(3)] == [3 * reader.READ_ENTRIES, reader.READ_ENTRIES + 1, 0]


def test_large_entries_end_a_round_soon(shard: Reader) -> None:
    size = reader.ROUND_BYTES // reader.READ_ENTRIES + 1
    fill(shard.stream, 2 * reader.READ_ENTRIES, size)
    assert len(shard.read(0.0)) == reader.READ_ENTRIES


def test_what_was_read_and_not_acknowledged_comes_first_after_a_restart(shard: Reader) -> None:
    fill(shard.stream, 3, 10)
    first = shard.read(0.0)
    shard.acknowledge([entry_id for entry_id, _ in first[:1]])
    fill(shard.stream, 1, 20)
    again = Reader(7)
    assert again.read(0.0) == first[1:]
    assert again.read(0.0) == []
    assert [len(fields[b"d"]) for _, fields in again.read(0.0)] == [20]


def test_an_entry_that_vanished_while_it_was_pending_has_no_fields(shard: Reader) -> None:
    fill(shard.stream, 1, 10)
    [(entry_id, _)] = shard.read(0.0)
    redis().xdel(shard.stream, entry_id)
    assert Reader(7).read(0.0) == [(entry_id, {})]


def test_no_string_of_the_embedded_valkey_is_larger_than_a_few_fit_into_memory(shard: Reader) -> None:
    with pytest.raises(RedisError):  # the server hangs up, before or after we have sent all of it
        redis().xadd(shard.stream, {"d": b"x" * (2 * 1024 * 1024 + 1)})
    fill(shard.stream, 1, 1024 * 1024 + 256 * 1024)

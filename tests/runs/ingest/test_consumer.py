from __future__ import annotations

import random
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from runs.ingest import consumer, rounds
from runs.ingest.consumer import Consumer
from runs.records.logs.read import read_logs
from runs.records.metrics import progress
from runs.records.metrics.models import DeadLetter, NodeSample, Producer, Telemetry
from runs.records.points import store
from runs.records.points.blocks import encode_block
from runs.records.points.tables import PointMatrix
from runs.serving.transport import redis
from tests.cast import make_attempt, make_node
from tests.runs.ingest.conftest import Stage, drain
from tests.series import series_data
from tests.servers import Valkey
from tests.spools import Spool, send, send_health, some_points
from trainyard.contract.seals import CHANGED_CHANNEL, EPOCH_KEY, stream_key

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture
def num_ranks() -> int:
    return 2


def test_what_a_rank_sends_is_stored_and_the_stream_is_empty_afterwards(stage: Stage) -> None:
    spool = Spool()
    spool.begin(rank=1)
    spool.points(some_points(1, 20))
    spool.logs([(1.0, "hello")], rank=1)
    spool.end()
    send(stage.attempt, stage.node, spool.bytes)
    drain(stage.consumer)

    assert stage.steps() == list(range(1, 21))
    assert [line["text"] for line in read_logs(stage.run.pk)["items"]] == ["hello"]
    row = Producer.objects.get(run_id=stage.run.pk, producer=spool.producer)
    assert (row.watermark, row.end_sequence, row.rank, row.role, row.node) == (4, 4, 1, "rank", stage.node.name)
    assert progress.is_complete(stage.run.pk, {spool.producer: 4})
    assert redis().xlen(stream_key(0)) == 0
    telemetry = Telemetry.objects.get(run_id=stage.run.pk)
    assert (telemetry.cursor, telemetry.step, telemetry.step_at, telemetry.median_step_s) == (1, 20, 1020.0, 1.0)
    assert (telemetry.num_points, telemetry.num_lines) == (20, 1)


def test_control_is_hinted_once_a_supervisor_has_written_its_last_record(stage: Stage) -> None:
    listening: Any = redis().pubsub(ignore_subscribe_messages=True)
    with listening as channel:
        channel.subscribe(CHANGED_CHANNEL)
        spool = Spool()
        spool.begin(role="supervisor")
        spool.points(some_points(1, 2))
        send(stage.attempt, stage.node, spool.bytes)
        drain(stage.consumer)
        assert channel.get_message(timeout=0.05) is None
        send(stage.attempt, stage.node, spool.end())
        drain(stage.consumer)
        assert channel.get_message(timeout=5)["data"].decode() == stage.run.pk


def test_a_frame_that_comes_twice_counts_once(stage: Stage) -> None:
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 3))
    for _ in range(3):
        send(stage.attempt, stage.node, spool.bytes)
        drain(stage.consumer)
    assert stage.steps() == [1, 2, 3]
    assert Telemetry.objects.get().cursor == 1


def test_a_gap_is_refused_reported_and_closed_by_sending_again(stage: Stage) -> None:
    spool = Spool()
    frames = [spool.begin(), spool.points(some_points(1, 2)), spool.points(some_points(3, 2))]
    send(stage.attempt, stage.node, frames[0] + frames[2])
    drain(stage.consumer)
    assert stage.steps() == []
    assert Producer.objects.get(has_gap=True).producer == spool.producer
    assert progress.watermarks(stage.run.pk) == {spool.producer: 1}

    send(stage.attempt, stage.node, frames[1] + frames[2])
    drain(stage.consumer)
    assert stage.steps() == [1, 2, 3, 4]
    assert not Producer.objects.filter(has_gap=True).exists()


class Killed(BaseException):
    """Nothing catches it."""


def kill(entry_ids: list[bytes]) -> None:
    raise Killed


def test_killed_between_commit_and_acknowledge_each_point_is_there_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 5))
    send(stage.attempt, stage.node, spool.bytes)
    killed = Consumer(0, block_s=0.01)
    monkeypatch.setattr(killed._reader, "acknowledge", kill)
    with pytest.raises(Killed):
        drain(killed)
    killed._lock.release()
    assert stage.steps() == [1, 2, 3, 4, 5]
    assert redis().xlen(stream_key(0)) == 1

    drain(stage.consumer)
    assert stage.steps() == [1, 2, 3, 4, 5]
    assert redis().xlen(stream_key(0)) == 0
    assert redis().xpending(stream_key(0), "ingest")["pending"] == 0


def test_a_second_ingest_on_the_shard_waits_for_the_first_to_go(stage: Stage) -> None:
    second = Consumer(0, block_s=0.01)
    drain(stage.consumer)
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 2))
    send(stage.attempt, stage.node, spool.bytes)
    assert not second.step()
    assert redis().xlen(stream_key(0)) == 1
    stage.consumer.close()
    drain(second)
    assert stage.steps() == [1, 2]
    second.close()


def test_two_that_both_think_the_shard_is_theirs_store_each_point_once(stage: Stage) -> None:
    drain(stage.consumer)
    redis().delete("trainyard:ingest:0")  # as if it had run out while its holder was paused
    second = Consumer(0, block_s=0.01)
    drain(second)
    spool = Spool()
    spool.begin()
    for number in range(1, 41):
        send(stage.attempt, stage.node, spool.points(some_points(number, 1)) if number > 1 else spool.bytes)
        (stage.consumer if number % 2 else second).step()
    send(stage.attempt, stage.node, spool.bytes)
    drain(stage.consumer)
    drain(second)
    second.close()
    drain(stage.consumer)
    assert stage.steps() == list(range(2, 41))


def test_a_new_valkey_gets_a_new_epoch_and_the_group_again(stage: Stage) -> None:
    drain(stage.consumer)
    before = redis().get(EPOCH_KEY)
    redis().flushall()
    stage.consumer._looked_at = float("-inf")
    drain(stage.consumer)
    drain(stage.consumer)
    assert redis().get(EPOCH_KEY) not in (None, before)
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 1))
    send(stage.attempt, stage.node, spool.bytes)
    drain(stage.consumer)
    assert stage.steps() == [1]


def test_it_waits_for_a_valkey_that_is_away_and_goes_on(stage: Stage, valkey: Valkey) -> None:
    drain(stage.consumer)
    valkey.kill()
    assert not stage.consumer.step()
    valkey.start()
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 1))
    send(stage.attempt, stage.node, spool.bytes)
    for _ in range(20):
        stage.consumer.step()
    assert stage.steps() == [1]


def test_health_samples_are_stored_once(stage: Stage) -> None:
    for _ in range(2):
        send_health(stage.node, {"at": 12.5, "cpu_percent": 0.5})
    drain(stage.consumer)
    assert [(row.node_id, row.at, row.health["cpu_percent"]) for row in NodeSample.objects.all()] == [
        (stage.node.pk, 12.5, 0.5)
    ]


def test_points_of_an_older_attempt_are_taken_and_carry_it(stage: Stage) -> None:
    stage.attempt.ended_at = stage.attempt.created_at
    stage.attempt.save()
    newer = make_attempt(stage.run, [make_node(stage.node.cluster)], phase=stage.attempt.placements.get().phase)
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 1))
    send(stage.attempt, stage.node, spool.bytes)
    drain(stage.consumer)
    assert newer.fence > stage.attempt.fence
    assert [part["attempt"] for part in series_data(stage.run.pk, [])["series"]] == [stage.attempt.fence]


@pytest.mark.parametrize(
    "forged",
    [{"m": "0" * 64}, {"n": "nobody"}, {"a": "elsewhere"}, {"f": 77}, {"f": "x"}, {"d": b"other"}],
    ids=lambda forged: next(iter(forged)),
)
def test_what_nobody_answers_for_is_a_dead_letter(stage: Stage, forged: dict[str, object]) -> None:
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 1))
    if "d" in forged:  # bytes that the seal is not about
        fields = {"n": stage.node.pk, "r": stage.run.pk, "a": stage.attempt.pk, "f": 1, "m": "0" * 64, "d": b"other"}
        redis().xadd(stream_key(0), fields)
    elif forged.get("f") == "x":
        redis().xadd(stream_key(0), {"f": "x"})
    else:
        send(stage.attempt, stage.node, spool.bytes, **forged)
    drain(stage.consumer)
    assert stage.steps() == []
    assert DeadLetter.objects.count() == 1
    assert redis().xlen(stream_key(0)) == 0


def test_a_node_may_not_speak_for_the_attempt_of_another(stage: Stage) -> None:
    stranger = make_node(stage.node.cluster)
    spool = Spool()
    spool.begin()
    send(stage.attempt, stranger, spool.bytes)
    drain(stage.consumer)
    assert not Producer.objects.exists()
    assert "placement" in DeadLetter.objects.get().reason


def test_what_arrives_for_a_deleted_run_is_dropped(stage: Stage) -> None:
    spool = Spool()
    spool.begin()
    send(stage.attempt, stage.node, spool.bytes)
    attempt = stage.attempt
    run_id = stage.run.pk
    attempt.run.delete()
    drain(stage.consumer)
    assert not Telemetry.objects.filter(run_id=run_id).exists()
    assert not DeadLetter.objects.exists()
    assert redis().xlen(stream_key(0)) == 0


def test_a_full_disk_loses_nothing(stage: Stage) -> None:
    if connections[settings.METRICS_DATABASE].vendor != "sqlite":
        pytest.skip("the pages of a database can be bounded in SQLite only")
    drain(stage.consumer)
    spool = Spool()
    spool.begin()
    noise = random.Random(0)
    rows = [(step, noise.random(), noise.random()) for step in range(20_000)]
    send(stage.attempt, stage.node, spool.bytes + spool.points(rows))
    with connections[settings.METRICS_DATABASE].cursor() as cursor:
        cursor.execute("VACUUM")  # pages that tests before left free would be room
        cursor.execute("PRAGMA page_count")
        cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0] + 1}")
    assert not stage.consumer.step()  # and it takes another connection, which has no such bound
    assert progress.cursor_of(stage.run.pk) == 0
    assert redis().xlen(stream_key(0)) == 1
    drain(stage.consumer)
    assert progress.watermarks(stage.run.pk) == {spool.producer: 2}
    assert redis().xlen(stream_key(0)) == 0


def test_one_frame_that_cannot_be_stored_costs_itself_only(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def superstitious(matrices: list[tuple[list[int], PointMatrix]]) -> bytes:
        if any(13 in matrix.steps for _, matrix in matrices):
            raise ValueError("not that one")
        return encode_block(matrices)

    monkeypatch.setattr(store, "encode_block", superstitious)
    spool = Spool()
    spool.begin()
    for step in range(11, 16):
        spool.points(some_points(step, 1))
    send(stage.attempt, stage.node, spool.bytes)
    drain(stage.consumer)
    assert stage.steps() == [11, 12, 14, 15]
    assert progress.watermarks(stage.run.pk) == {spool.producer: 6}
    assert "not that one" in DeadLetter.objects.get().reason


@pytest.mark.parametrize("document", [{"cpu": 1}, {"at": "noon"}, [1], {"at": 1.0, "cpu": float("nan")}], ids=str)
def test_a_health_sample_that_is_none_is_kept_aside(stage: Stage, document: Any) -> None:
    send_health(stage.node, document)
    send_health(stage.node, {"at": 2.0})
    drain(stage.consumer)
    assert [row.at for row in NodeSample.objects.all()] == [2.0]
    assert DeadLetter.objects.get().node_id == stage.node.pk


def test_a_sealed_sample_that_is_nested_too_deeply_stops_nobody(stage: Stage) -> None:
    send_health(stage.node, b"[" * 100_000)
    send_health(stage.node, {"at": 5.0, "cpu_percent": 1.0})
    drain(stage.consumer)
    assert "cannot be read" in DeadLetter.objects.get().reason
    assert NodeSample.objects.get().at == 5.0


@pytest.mark.parametrize("error", [RuntimeError("poison"), RecursionError("deep"), MemoryError(), KeyError("k")])
def test_an_entry_that_fails_in_any_way_is_kept_aside_and_the_others_are_stored(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    parse = rounds.parse

    def poisoned(entry_id: bytes, fields: dict[bytes, bytes]) -> Any:
        if fields[b"d"] == b"poison":
            raise error
        return parse(entry_id, fields)

    monkeypatch.setattr(rounds, "parse", poisoned)
    for number in range(3):
        spool = Spool()
        spool.begin()
        spool.points(some_points(number * 10 + 1, 10))
        send(stage.attempt, stage.node, spool.bytes)
        send_health(stage.node, b"poison")
    drain(stage.consumer)
    assert len(stage.steps()) == 30
    assert DeadLetter.objects.count() == 3
    assert {(letter.node_id, bytes(letter.data)) for letter in DeadLetter.objects.all()} == {(stage.node.pk, b"poison")}
    assert redis().xlen(stream_key(0)) == 0


def test_old_samples_and_what_came_for_deleted_runs_are_tidied_away(stage: Stage) -> None:
    now = 1e9
    for at in (now - consumer.KEEP_SAMPLES_S - 1, now - 60):
        NodeSample.objects.create(node_id=stage.node.pk, at=at, health={})
    Telemetry.objects.create(run_id="gone")
    Telemetry.objects.create(run_id=stage.run.pk)
    consumer.prune(now)
    assert [row.at for row in NodeSample.objects.all()] == [now - 60]
    assert [row.run_id for row in Telemetry.objects.all()] == [stage.run.pk]

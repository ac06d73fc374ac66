"""A round: entries of many runs in one transaction, each run for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from django.conf import settings
from django.db import OperationalError, connections
from django.test.utils import CaptureQueriesContext

from runs.ingest import commit as commit_module
from runs.ingest.consumer import Consumer
from runs.ingest.report import report_points
from runs.models import Attempt, Node, Run
from runs.records.metrics import progress
from runs.records.metrics.models import DeadLetter, Series, Telemetry
from runs.records.points import store
from runs.records.points.blocks import encode_block
from runs.records.points.tables import PointMatrix
from runs.serving.transport import redis
from tests.cast import Cast, make_attempt, make_node
from tests.runs.ingest.conftest import drain
from tests.series import series_data
from tests.servers import Valkey
from tests.spools import Spool, send, some_points
from trainyard.contract.locks import lock_bytes
from trainyard.contract.seals import LOCKED, frames_scope, stream_key

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


class Stage(NamedTuple):
    attempts: list[Attempt]
    nodes: list[Node]
    consumer: Consumer

    def run_id(self, which: int) -> str:
        return str(self.attempts[which].run_id)

    def send(self, which: int, frames: bytes) -> None:
        send(self.attempts[which], self.nodes[which], frames)

    def steps(self, which: int) -> list[int]:
        return [step for part in series_data(self.run_id(which), [])["series"] for step in part["step"]]


@pytest.fixture
def stage(cast: Cast, make_run: Callable[..., Run], valkey: Valkey) -> Iterator[Stage]:
    nodes = [make_node(cast.cluster) for _ in range(3)]
    consumer = Consumer(0, block_s=0.01)
    consumer.step()
    yield Stage([make_attempt(make_run(), [node]) for node in nodes], nodes, consumer)
    consumer.close()


def begun(stage: Stage) -> list[Spool]:
    spools = [Spool() for _ in stage.attempts]
    for which, spool in enumerate(spools):
        stage.send(which, spool.begin())
    drain(stage.consumer)
    return spools


def test_all_runs_of_a_round_are_committed_at_once(stage: Stage) -> None:
    spools = begun(stage)
    for number in range(4):
        for which, spool in enumerate(spools):
            stage.send(which, spool.points(some_points(number, 1)))
    with CaptureQueriesContext(connections[settings.METRICS_DATABASE]) as queries:
        assert stage.consumer.step()
    assert [stage.steps(which) for which in range(3)] == [[0, 1, 2, 3]] * 3
    words = [query["sql"].split()[0] for query in queries]
    assert words.count("COMMIT") == 1
    assert [Telemetry.objects.get(run_id=stage.run_id(which)).cursor for which in range(3)] == [2, 2, 2]


def refuse(monkeypatch: pytest.MonkeyPatch, step: int, error: Exception) -> None:
    def superstitious(matrices: list[tuple[list[int], PointMatrix]]) -> bytes:
        if any(step in matrix.steps for _, matrix in matrices):
            raise error
        return encode_block(matrices)

    monkeypatch.setattr(store, "encode_block", superstitious)


def test_a_run_that_cannot_be_stored_does_not_undo_the_others(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    spools = begun(stage)
    refuse(monkeypatch, 13, ValueError("not that one"))
    for which, first in enumerate((1, 13, 5)):
        stage.send(which, spools[which].points(some_points(first, 1)))
    drain(stage.consumer)
    assert [stage.steps(which) for which in range(3)] == [[1], [], [5]]
    assert Telemetry.objects.get(run_id=stage.run_id(1)).troubles == {"refused_points": 1}
    stage.send(1, spools[1].points(some_points(14, 1)))
    drain(stage.consumer)
    assert stage.steps(1) == [14]


def test_a_database_that_fails_in_mid_round_undoes_all_of_it_and_all_comes_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools = begun(stage)
    for which, spool in enumerate(spools):
        stage.send(which, spool.points(some_points(13, 2)))
    with monkeypatch.context() as patch:
        last = max(stage.run_id(which) for which in range(3))
        original = commit_module._Commit._save

        def fail(self: commit_module._Commit, *, is_new: bool) -> None:
            original(self, is_new=is_new)
            if self.run_id == last:
                raise OperationalError("the disk is full")

        patch.setattr(commit_module._Commit, "_save", fail)
        assert not stage.consumer.step()
    assert [stage.steps(which) for which in range(3)] == [[], [], []]
    assert redis().xlen(stream_key(0)) == 3
    drain(stage.consumer)
    assert [stage.steps(which) for which in range(3)] == [[13, 14]] * 3
    assert list(Series.objects.values_list("count", flat=True)) == [2, 2, 2]


def test_what_rest_commits_in_between_is_not_forgotten(stage: Stage) -> None:
    spools = begun(stage)
    run = Run.objects.get(pk=stage.run_id(0))
    for number in range(3):
        stage.send(0, spools[0].points(some_points(number, 1), name="x"))
        drain(stage.consumer)
        report_points(
            run, producer="f" * 32, sequence=number + 1,
            points=[("x", {}, 10 + number, 1.0, 7.0), (f"new-{number}", {}, 0, 1.0, 0.0)],
        )  # fmt: skip
    stage.send(0, spools[0].points(some_points(3, 1), name="x"))
    drain(stage.consumer)
    row = Series.objects.get(run_id=run.pk, name="x")
    assert (row.count, row.last_step, row.last, row.max) == (7, 12, 7.0, 7.0)
    telemetry = Telemetry.objects.get(run_id=run.pk)
    assert (telemetry.cursor, telemetry.num_points, telemetry.step) == (8, 10, 12)


def test_in_a_second_round_nothing_is_read_but_the_row_that_is_the_lock(stage: Stage) -> None:
    [spool, *_] = begun(stage)
    for first in (1, 3):
        stage.send(0, spool.points(some_points(first, 2)))
        with CaptureQueriesContext(connections[settings.METRICS_DATABASE]) as queries:
            assert stage.consumer.step()
    reads = [query["sql"] for query in queries if query["sql"].startswith("SELECT") and "runs_" not in query["sql"]]
    assert len(reads) == 1 and "troubles" in reads[0]


def test_each_shard_has_a_stream_and_an_ingest_of_its_own(stage: Stage, make_run: Callable[..., Run]) -> None:
    run = make_run(shard=1)
    node = make_node(stage.nodes[0].cluster)
    attempt = make_attempt(run, [node])
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 2))
    send(attempt, node, spool.bytes)
    drain(stage.consumer)
    assert progress.watermarks(run.pk) == {}
    other = Consumer(1, block_s=0.01)
    drain(other)
    other.close()
    assert progress.watermarks(run.pk) == {spool.producer: 2}


def test_locked_entries_are_opened_and_those_of_another_key_are_not_stored(stage: Stage) -> None:
    spool = Spool()
    for which, key in ((0, stage.nodes[0].key), (1, stage.nodes[2].key)):
        attempt = stage.attempts[which]
        scope = frames_scope(stage.nodes[which].pk, attempt.run_id, attempt.fence)
        frames = spool.begin() + spool.points(some_points(1, 3))
        send(attempt, stage.nodes[which], lock_bytes(key, scope, frames), e=LOCKED)
        spool = Spool()
    drain(stage.consumer)
    assert (stage.steps(0), stage.steps(1)) == ([1, 2, 3], [])
    assert "does not open" in DeadLetter.objects.get().reason

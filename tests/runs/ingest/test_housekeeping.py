"""What ingest does in idle moments, and what it does in spite of load."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from runs.ingest.consumer import Consumer, Housekeeping
from runs.models import Run
from runs.records.metrics import progress
from runs.records.metrics.models import Block, Segment
from runs.records.points.compaction import compactor as compact
from tests.cast import Cast, make_attempt, make_node
from tests.series import series_data
from tests.servers import Valkey
from tests.spools import Spool, send, some_points

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture
def consumer(valkey: Valkey) -> Iterator[Consumer]:
    made = Consumer(0, block_s=0.001)
    yield made
    made.close()


@pytest.fixture
def deliver(cast: Cast, make_run: Callable[..., Run], consumer: Consumer) -> Callable[[], str]:
    """Commit a point more of one run, in a round of its own, and return the run's id."""
    run, node, spool = make_run(), make_node(cast.cluster), Spool()
    attempt = make_attempt(run, [node])

    def one() -> str:
        send(attempt, node, spool.points(some_points(len(spool.frames), 1)))
        while progress.watermarks(run.pk).get(spool.producer, 0) < len(spool.frames):
            consumer.step()
        return str(run.pk)

    return one


def test_small_batches_are_put_together_while_there_is_nothing_to_read(
    deliver: Callable[[], str], consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "BLOCKS", 3)
    for _ in range(4):
        run_id = deliver()
    assert Block.objects.count() == 4
    monkeypatch.setattr(compact, "LAG_S", 0.0)
    monkeypatch.setattr(compact, "QUIET_S", 0.2)
    while Block.objects.exists():
        consumer.step()
    assert Segment.objects.exists()
    assert series_data(run_id, ["train/loss"])["series"][0]["step"] == [0, 1, 2, 3]


def test_under_load_nothing_is_compacted_until_too_much_has_come_together(
    deliver: Callable[[], str], consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Housekeeping, "idle", lambda self: None)  # as if there never were a pause
    monkeypatch.setattr(compact, "BLOCKS", 2)
    monkeypatch.setattr(compact, "LAG_S", 0.0)
    monkeypatch.setattr(compact, "BEHIND_BATCHES", 5)
    for _ in range(4):
        deliver()
    assert Block.objects.count() == 4
    deliver()
    assert Block.objects.count() == 0


def test_the_runs_of_another_shard_are_not_ours_to_compact(make_run: Callable[..., Run], consumer: Consumer) -> None:
    mine, other = make_run(), make_run(shard=1)
    is_mine = consumer._house._compactor._is_mine
    assert is_mine(mine.pk) and not is_mine(other.pk) and not is_mine("gone")

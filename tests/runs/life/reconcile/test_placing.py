"""Placing a queue: what it costs when the queue is long, and what is written of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.pages.clusters.boxes import boxes_of
from runs.life.reconcile import schedule
from runs.life.reconcile.loop import tick
from runs.models import Run
from runs.models.runs import size_of
from tests.cast import Cast, make_node, spec
from tests.servers import Valkey

MakeRun = Callable[..., Run]
NUM_WAITING = 10_000


@pytest.fixture
def queue(cast: Cast, valkey: Valkey) -> list[Run]:
    """A long queue behind a run that waits for a second node."""
    make_node(cast.cluster, slots=2)
    make_node(cast.cluster, slots=2, is_draining=True)
    document = spec(resources={"nodes": 2, "processes_per_node": 2})
    runs = [
        Run(project=cast.project, cluster=cast.cluster, name="waits", spec=document, created_by=cast.mate,
            **size_of(document))
        for _ in range(NUM_WAITING)
    ]  # fmt: skip
    return Run.objects.bulk_create(runs, batch_size=1_000)


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_tick_over_a_long_queue_asks_the_database_little_and_reads_no_spec(queue: list[Run]) -> None:
    """How long it takes is measured by `make bench ARGS=lists`."""
    with CaptureQueriesContext(connection) as asked:
        assert tick(timezone.now())
    assert len(asked) <= 200  # writes ten thousand reasons, hundreds at a time
    with CaptureQueriesContext(connection) as asked:
        assert tick(timezone.now())
    assert len(asked) <= 40  # one for each rule, none for each run
    statements = [query["sql"] for query in asked]
    assert not [one for one in statements if 'FROM "runs_run"' in one and '"spec"' in one]
    written = [one for one in statements if one.startswith("UPDATE") and "runs_run" in one]
    assert len(written) <= 1  # the first one's reason names nodes, which may be out of contact by now


def test_reasons_are_written_where_they_changed(cast: Cast, make_run: MakeRun, valkey: Valkey) -> None:
    make_node(cast.cluster, slots=1)
    now = timezone.now()
    runs = [make_run(name=f"run-{number}", spec=spec(resources={"nodes": 1, "processes_per_node": 2}))
            for number in range(3)]  # fmt: skip
    make_node(cast.cluster, slots=2, is_draining=True)
    schedule(cast.cluster.pk, now)
    said = [Run.objects.get(pk=run.pk).reason_sentence for run in runs]
    assert said[0].startswith("Waiting for 1 more CPU slot on cluster local: 1 of 1 free; node-")
    assert said[1].endswith("one run is ahead of yours, and needs 1 node with 2 slots.")
    assert said[2].endswith("2 runs are ahead of yours, and the first needs 1 node with 2 slots.")
    before = Run.objects.get(pk=runs[0].pk)
    with CaptureQueriesContext(connection) as asked:
        schedule(cast.cluster.pk, now + timedelta(seconds=1))
    assert not [query for query in asked if query["sql"].startswith("UPDATE")]
    assert Run.objects.get(pk=runs[0].pk).reason_sentence == before.reason_sentence


def test_a_run_without_its_size_beside_it_is_placed_by_its_spec(cast: Cast, make_run: MakeRun, valkey: Valkey) -> None:
    make_node(cast.cluster, slots=2)
    run = make_run(spec=spec(resources={"nodes": 1, "processes_per_node": 2}))
    assert run.num_nodes is None
    schedule(cast.cluster.pk, timezone.now())
    run.refresh_from_db()
    assert run.status == "SCHEDULED"


def test_runs_with_a_share_hold_one_slot_together(cast: Cast, make_run: MakeRun, valkey: Valkey) -> None:
    node = make_node(cast.cluster, slots=1)
    document = spec(resources={"nodes": 1, "processes_per_node": 1, "slots_per_process": 0.5})
    runs = [make_run(name=f"run-{number}", spec=document, **size_of(document)) for number in range(3)]
    schedule(cast.cluster.pk, timezone.now())
    held = node.held_slots.order_by("share")
    assert [(one.index, one.share, one.placement.attempt.run_id) for one in held] == [
        (0, 0, runs[0].pk),
        (0, 1, runs[1].pk),
    ]
    assert "0 of 1 free" in Run.objects.get(pk=runs[2].pk).reason_sentence
    assert boxes_of(cast.mate, [node], timezone.now())[0].num_held == 1
    held[0].delete()
    schedule(cast.cluster.pk, timezone.now())
    assert {one.placement.attempt.run_id for one in node.held_slots.all()} == {runs[1].pk, runs[2].pk}

"""Arrays: many runs of one spec, all or none, so many at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from runs import actions
from runs.life.reconcile import schedule
from runs.life.reconcile.desired import order_for
from runs.models import HeldSlot, Placement, Run, StartTerms
from runs.presenting.listing import find_runs
from tests.cast import Cast, make_node, spec
from tests.servers import Valkey


@pytest.fixture(autouse=True)
def now(valkey: Valkey) -> datetime:
    return timezone.now()


def submit(cast: Cast, **fields: Any) -> list[Run]:
    first = actions.submit_run(actor=cast.mate, document=spec(name="net", **fields))
    return list(find_runs(cast.mate, tags=first.tags[:1]).order_by("number"))


def placed(cast: Cast, now: datetime) -> list[str]:
    schedule(cast.cluster.pk, now)
    return list(Run.objects.filter(status="SCHEDULED").order_by("number").values_list("name", flat=True))


def lose(name: str) -> Run:
    """Have a run be queued again, as after a pause."""
    HeldSlot.objects.filter(placement__attempt__run__name=name).delete()
    run = Run.objects.get(name=name)
    run.attempts.all().delete()
    Run.objects.filter(pk=run.pk).update(status="QUEUED")
    return run


def test_the_runs_of_an_array_have_numbers_and_a_tag(cast: Cast, now: datetime) -> None:
    runs = submit(cast, array={"size": 3}, tags=["mine"], not_before="2026-01-01")
    assert [run.name for run in runs] == ["net-0", "net-1", "net-2"]
    (tag,) = {run.tags[0] for run in runs}
    assert tag.startswith("array-") and all(run.tags == [tag, "mine"] for run in runs)
    assert [run.spec["array"] for run in runs] == [{"size": 3, "at_once": 0, "index": one} for one in range(3)]
    make_node(cast.cluster, slots=4)
    assert placed(cast, now) == ["net-0", "net-1", "net-2"]
    orders = [order_for(one) for one in Placement.objects.order_by("attempt__run__number")]
    assert [order.spec["array"]["index"] for order in orders] == [0, 1, 2]


def test_no_more_of_them_have_nodes_than_the_spec_says(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=8)
    runs = submit(cast, array={"size": 5, "at_once": 2})
    assert placed(cast, now) == ["net-0", "net-1"]
    runs[2].refresh_from_db()
    assert runs[2].reason_sentence == "Waiting for another run of its array: 2 at a time."
    actions.submit_run(actor=cast.mate, document=spec(name="other"))
    assert placed(cast, now) == ["net-0", "net-1", "other"]  # it keeps nobody waiting
    lose("net-0")
    Run.objects.filter(name="net-0").update(status="SUCCEEDED")
    assert placed(cast, now) == ["net-1", "net-2", "other"]


def test_one_that_comes_back_goes_before_the_next_and_is_no_third(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=8)
    submit(cast, array={"size": 4, "at_once": 2})
    assert placed(cast, now) == ["net-0", "net-1"]
    lose("net-1")
    assert placed(cast, now) == ["net-0", "net-1"]
    lose("net-1")
    Run.objects.filter(name="net-1").update(status="PAUSED")
    assert placed(cast, now) == ["net-0", "net-2"]
    Run.objects.filter(name="net-1").update(status="QUEUED")
    assert placed(cast, now) == ["net-0", "net-2"]


def test_a_clone_of_one_is_one_run_with_its_number(cast: Cast) -> None:
    second = submit(cast, array={"size": 3, "at_once": 1})[1]
    clone = actions.clone_run(actor=cast.mate, run=second)
    assert (clone.name, clone.spec["array"], clone.tags) == ("net-1", second.spec["array"], [])
    assert Run.objects.count() == 4 and not StartTerms.objects.filter(run=clone).exists()


def test_all_or_none_are_written(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Run.make
    monkeypatch.setattr(Run, "make", lambda **values: 1 / 0 if values["name"] == "net-2" else made(**values))
    with pytest.raises(ZeroDivisionError):
        submit(cast, array={"size": 3})
    assert not Run.objects.exists() and not StartTerms.objects.exists()


def test_control_is_told_once_of_an_array(
    cast: Cast, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("runs.engines.control_hints.request_schedule", sent.append)
    with django_capture_on_commit_callbacks(execute=True):
        submit(cast, array={"size": 3})
    assert sent == [cast.cluster.pk]


def test_a_round_over_arrays_and_dependencies_reads_no_spec(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=1, is_draining=True)
    first = submit(cast, array={"size": 20, "at_once": 2})[0]
    actions.submit_run(actor=cast.mate, document=spec(name="last", after={"runs": [first.pk]}))
    schedule(cast.cluster.pk, now)
    with CaptureQueriesContext(connection) as asked:
        schedule(cast.cluster.pk, now)
    assert not [one["sql"] for one in asked if '"spec"' in one["sql"]]
    assert len(asked) <= 25

"""What runs wait for beside room: they start after it, and keep nobody waiting until then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.actions.estimates import start_of
from runs.life.reconcile import schedule
from runs.life.reconcile.placing import predict_starts
from runs.models import HeldSlot, Membership, Project, Role, Run
from runs.placing.conditions import why_not_yet
from runs.placing.queue import queue_of
from runs.privacy.retention import forget
from runs.values.status import Status, WaitCode
from tests.cast import Cast, make_node, spec
from tests.servers import Valkey
from trainyard.contract.base import SpecDocument
from trainyard.spec import SpecError, parse_spec

LATER = timedelta(seconds=2)
MakeRun = Callable[..., Run]


@pytest.fixture(autouse=True)
def now(valkey: Valkey) -> datetime:
    return timezone.now().replace(microsecond=0)


def submit(cast: Cast, name: str = "net", **fields: Any) -> Run:
    return actions.submit_run(actor=cast.mate, document=spec(name=name, **fields))


def statuses(cast: Cast, now: datetime) -> dict[str, str]:
    schedule(cast.cluster.pk, now)
    return dict(Run.objects.values_list("name", "status"))


def why(run: Run) -> str:
    run.refresh_from_db()
    return run.reason_sentence


def test_a_run_waits_until_its_time_and_lets_others_pass(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=1)
    early = submit(cast, "early", not_before=(now + LATER).isoformat())
    assert statuses(cast, now) == {"early": "QUEUED"}
    assert why(early) == f"Waiting until {now + LATER:%Y-%m-%d %H:%M:%S} UTC.".replace(":00 UTC", " UTC")
    submit(cast, "late")
    assert statuses(cast, now) == {"early": "QUEUED", "late": "SCHEDULED"}


def test_it_starts_at_its_time_and_a_clock_that_jumps_back_changes_nothing(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=1)
    run = submit(cast, not_before=(now + LATER).isoformat())
    assert statuses(cast, now + LATER) == {"net": "SCHEDULED"}
    HeldSlot.objects.all().delete()
    run.attempts.all().delete()
    Run.objects.update(status="QUEUED")  # as after its node was lost: it has started before
    assert statuses(cast, now) == {"net": "SCHEDULED"}


def test_a_time_in_the_past_is_now(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=1)
    submit(cast, not_before="2026-01-01")
    assert statuses(cast, now) == {"net": "SCHEDULED"}


def test_the_launch_form_says_that_it_would_wait(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=1)
    document = SpecDocument(spec(not_before="2126-11-28T06:00:30Z"))
    found = start_of(cast.mate, parse_spec(document), cast.cluster, list(cast.cluster.nodes.all()), now)
    assert getattr(found.answer, "sentence", "") == "Waiting until 2126-11-28 06:00:30 UTC."


def end(run: Run, status: Status) -> None:
    Run.objects.filter(pk=run.pk).update(status=status)


def test_a_run_waits_for_the_success_of_others_by_id_and_by_name(cast: Cast, now: datetime) -> None:
    submit(cast, "net")
    first, second = submit(cast, "net"), submit(cast, "other")
    waits = submit(cast, "waits", after={"runs": ["net", second.pk, first.pk]})
    assert waits.spec["after"] == {"runs": [first.pk, second.pk], "on": "ok"}
    make_node(cast.cluster, slots=4)
    assert statuses(cast, now)["waits"] == "QUEUED"
    assert why(waits) == "Waiting for run net to succeed."
    end(first, Status.SUCCEEDED)
    assert statuses(cast, now)["waits"] == "QUEUED"
    assert why(waits) == "Waiting for run other to succeed."
    assert why_not_yet(waits.spec, now) == (WaitCode.RUN, why(waits))
    end(second, Status.SUCCEEDED)
    assert statuses(cast, now)["waits"] == "SCHEDULED"


@pytest.mark.parametrize(("status", "words"), [(Status.FAILED, "failed"), (Status.CANCELLED, "was cancelled")])
def test_where_one_does_not_succeed_all_that_wait_for_it_are_cancelled(
    cast: Cast, now: datetime, status: Status, words: str
) -> None:
    first = submit(cast, "first")
    second = submit(cast, "second", after={"runs": [first.pk]})
    third = submit(cast, "third", after={"runs": ["second"]})
    end(first, status)
    assert statuses(cast, now) == {"first": status, "second": "CANCELLED", "third": "QUEUED"}
    assert why(second) == f"Run first, whose success it waited for, {words}."
    assert statuses(cast, now)["third"] == "CANCELLED"
    assert why(third) == "Run second, whose success it waited for, was cancelled."


def test_any_end_is_enough_where_the_spec_says_so(cast: Cast, now: datetime) -> None:
    first = submit(cast, "first")
    waits = submit(cast, "waits", after={"runs": [first.pk], "on": "any"})
    make_node(cast.cluster, slots=4)
    statuses(cast, now)
    assert why(waits) == "Waiting for run first to end."
    end(first, Status.FAILED)
    assert statuses(cast, now)["waits"] == "SCHEDULED"


@pytest.mark.parametrize(
    ("status", "on", "found"),
    [(Status.SUCCEEDED, "ok", "SCHEDULED"), (Status.FAILED, "any", "SCHEDULED"), (Status.FAILED, "ok", "QUEUED")],
)
def test_a_run_that_was_deleted_counts_as_it_ended(
    cast: Cast, now: datetime, status: Status, on: str, found: str
) -> None:
    first = submit(cast, "first")
    waits = submit(cast, "waits", after={"runs": [first.pk], "on": on})
    make_node(cast.cluster, slots=1)
    end(first, status)
    first.refresh_from_db()
    forget(first)  # before control has looked
    assert statuses(cast, now) == {"waits": found}
    if found == "QUEUED":
        words = "Run first was deleted before it succeeded: clone this run with others to wait for, and cancel it."
        assert why(waits) == words


def test_runs_that_the_launcher_does_not_see_and_those_of_another_project_are_unknown(cast: Cast) -> None:
    theirs, vision = Project.objects.create(name="theirs"), Project.objects.create(name="vision")
    Membership.objects.create(project=vision, user=cast.mate, role=Role.MEMBER)
    hidden, other = (Run.make(project=one, cluster=cast.cluster, name="x", spec=spec()) for one in (theirs, vision))
    with pytest.raises(SpecError) as error:
        submit(cast, after={"runs": [hidden.pk, other.pk, "nothing"]})
    assert [str(one) for one in error.value.errors] == [
        f'after.runs.{place}: there is no run "{text}" of project default that you can see'
        for place, text in enumerate((hidden.pk, other.pk, "nothing"))
    ]
    assert not Run.objects.filter(project=cast.project).exists()


def test_a_deadline_stands_beside_the_expected_end(cast: Cast, now: datetime) -> None:
    make_node(cast.cluster, slots=1)
    late = (now + timedelta(hours=1)).isoformat()
    for name, deadline in (("first", ""), ("waits", late), ("last", "")):
        submit(cast, name, deadline=deadline, limits={"time": "1h"})
    schedule(cast.cluster.pk, now)
    predict_starts(cast.cluster.pk, now)
    waits, last = (one.run for one in queue_of(cast.mate, cast.cluster, now))
    assert waits.start_terms.due == (now + timedelta(hours=1)).timestamp()
    found = waits.start_prediction
    assert found is not None and found.ends is not None
    assert found.ends - found.at == pytest.approx(waits.planned_s, rel=0.01)
    assert not hasattr(last, "start_terms")


def test_a_deadline_in_the_past_is_refused_and_a_clone_has_none(cast: Cast, now: datetime) -> None:
    with pytest.raises(SpecError) as error:
        submit(cast, deadline="2026-01-01")
    assert [str(one) for one in error.value.errors] == [
        "deadline: 2026-01-01T00:00:00Z is in the past; accepted: a later time, or none"
    ]
    run = submit(cast, deadline=(now + LATER).isoformat())
    assert run.spec["deadline"] and not actions.clone_run(actor=cast.mate, run=run).spec["deadline"]

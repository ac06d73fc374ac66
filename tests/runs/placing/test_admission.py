"""Who may start, whatever room there is: rules on plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.core.cache import cache
from django.utils import timezone

from runs import actions
from runs.life.reconcile import schedule
from runs.models import Attempt, Cluster, Project, Run
from runs.placing import admission
from runs.placing.admission import Part, Terms, parts_of, within, write_notices
from runs.placing.fitting import Request
from runs.values.columns import LimitNotice
from runs.values.status import Reason, Status, WaitCode
from tests.cast import Cast, make_attempt, make_node
from tests.servers import Valkey

PAUSED = Reason(WaitCode.SWEEP, "Sweep s is paused.")
TERMS = Terms(cluster="lab", projects=frozenset({"mine"}), people=frozenset({7}), elsewhere={}, trials={})


def asked(run: str, project: str = "mine", person: int | None = 1) -> Request:
    return Request(run, 1, 1, project=project, person=person)


def refused(requests: Sequence[Request], terms: Terms) -> dict[str, str]:
    """Return the sentences of those that may not start."""
    return {run: why.sentence for run, why in admission.refused(requests, terms).items()}


def test_the_runs_of_a_project_or_a_person_that_the_cluster_takes_may_start() -> None:
    others = [asked("b", "theirs"), asked("c", "theirs", 7), asked("d", "theirs", None)]
    sentence = "Its project may not use cluster lab any more."
    assert refused([asked("a"), *others], TERMS) == {"b": sentence, "d": sentence}


def test_what_another_rule_refuses_has_the_first_ones_sentence_and_nobody_else_is_named() -> None:
    terms = replace(TERMS, elsewhere={"mine": "It waits."}, trials={"b": PAUSED, "gone": PAUSED})
    found = refused([asked("a"), asked("b"), asked("c", "theirs")], terms)
    assert found == {
        "a": "It waits.", "b": "Sweep s is paused.", "c": "Its project may not use cluster lab any more.",
    }  # fmt: skip


def test_a_project_holds_no_more_slots_than_it_may_and_a_smaller_run_still_starts() -> None:
    terms = replace(TERMS, parts={"mine": Part(slots=4, held=2.0)})
    found = refused([Request("a", 1, 1, project="mine"), Request("b", 2, 1, project="mine"), asked("c")], replace(
        terms, people=frozenset({1}),
    ))  # fmt: skip
    assert found == {"b": "Project mine may hold 4 slots at once: it holds 2, and this run needs 2."}


def test_a_month_that_is_used_up_keeps_the_queue_and_a_limit_below_what_runs_ends_nothing() -> None:
    spent = replace(TERMS, parts={"mine": Part(slot_hours=1.5, used_hours=1.5)})
    assert refused([asked("a")], spent) == {"a": "Project mine has used the 1.5 slot-hours that it has in a month."}
    assert refused([asked("a")], replace(TERMS, parts={"mine": Part(slot_hours=1.5, used_hours=1.4)})) == {}
    lowered = replace(TERMS, parts={"mine": Part(slots=1, held=3.0)})
    words = "Project mine may hold 1 slot at once: it holds 3, and this run needs 1."
    assert refused([asked("a")], lowered) == {"a": words}


def test_an_elastic_run_that_starts_again_has_no_more_nodes_than_the_limit_has_room_for() -> None:
    terms = replace(TERMS, parts={"mine": Part(slots=5, held=3.0)})  # with the 2 of its own least number of nodes
    elastic = Request("a", 1, 2, node_counts=(1, 2, 3), project="mine")
    assert within(elastic, terms).node_counts == (1, 2)
    of_person = replace(TERMS, parts={"mine": Part(per_person=3, by_person={1: 3.0})})
    assert within(replace(elastic, person=1), of_person).node_counts == (1,)
    assert within(replace(elastic, project="other"), terms).node_counts == (1, 2, 3)


def test_a_project_has_no_more_runs_at_once_than_it_may_whoever_launched_them() -> None:
    terms = replace(TERMS, parts={"mine": Part(runs=3, num_runs=1)})
    found = refused([asked("a"), asked("b", person=2), asked("c"), asked("d", "theirs", 7)], terms)
    assert found == {"c": "Project mine may have 3 runs at once: it has 1."}


def test_a_person_holds_no_more_slots_than_each_may_and_others_go_on() -> None:
    terms = replace(TERMS, parts={"mine": Part(per_person=2, by_person={1: 1.0})})
    found = refused([asked("a"), asked("b"), asked("c", person=2), Request("d", 1, 3, project="mine")], terms)
    words = "Each person may hold 2 slots at once in project mine: who launched this run holds"
    assert found == {"b": f"{words} 1, and it needs 1.", "d": f"{words} 0, and it needs 3."}


def test_a_run_that_one_limit_keeps_counts_for_no_other() -> None:
    terms = replace(TERMS, parts={"mine": Part(slots=3, per_person=1)})
    found = refused(
        [asked("a"), asked("b"), *(asked(name, person=place) for place, name in enumerate("cde", 2))], terms
    )
    assert set(found) == {"b", "e"}


def test_a_budget_that_is_spent_keeps_the_queue() -> None:
    spent = replace(TERMS, parts={"mine": Part(budget=1_500.0, spent=1_500.25)})
    words = "Project mine has spent the 1,500 that it may in a month: 1,500.25."
    assert refused([asked("a")], spent) == {"a": words}
    assert refused([asked("a")], replace(TERMS, parts={"mine": Part(budget=1_500.0, spent=1_499.0)})) == {}


def test_what_a_limit_has_room_for_is_the_least_of_what_its_project_and_its_person_may_hold() -> None:
    part = Part(slots=5, held=3.0, per_person=3, by_person={1: 2.0})
    assert [part.room(1), part.room(2), Part(runs=1).room(1)] == [1.0, 2.0, None]


def test_each_limit_that_is_used_to_four_fifths_has_its_sentence() -> None:
    part = Part(
        slots=5, held=4.0, slot_hours=10.0, used_hours=7.9, runs=10, num_runs=8, per_person=5,
        by_person={1: 4.0, 2: 0.0}, budget=1e4, spent=8_000.0,
    )  # fmt: skip
    assert part.near("vision") == {
        "slots": "Project vision holds 4 of the 5 slots that it may.",
        "runs_at_once": "Project vision has 8 of the 10 runs that it may at once.",
        "slots_per_person": "Project vision has a person who holds 4 of the 5 slots that each may.",
        "budget_month": "Project vision has spent 8,000.00 of the 10,000 that it may in a month.",
    }
    assert Part().near("vision") == {} == Part(slots=0, runs=0).near("vision")


MakeRun = Callable[..., Run]


def test_a_round_goes_by_the_limits_of_people_runs_and_money(cast: Cast, make_run: MakeRun, valkey: Valkey) -> None:
    make_node(cast.cluster, slots=8)
    Project.objects.update(slots_per_person=1, runs_at_once=3)
    runs = [make_run(), make_run(), make_run(created_by=cast.owner)]
    schedule(cast.cluster.pk, timezone.now())
    states = dict(Run.objects.values_list("pk", "status"))
    assert [states[run.pk] for run in runs] == ["SCHEDULED", "QUEUED", "SCHEDULED"]
    schedule(cast.cluster.pk, timezone.now())
    words = "Each person may hold 1 slot at once in project default: who launched this run holds 1, and it needs 1."
    assert Run.objects.get(pk=runs[1].pk).reason_sentence == words
    Project.objects.update(runs_at_once=2)
    schedule(cast.cluster.pk, timezone.now())
    words = "Project default may have 2 runs at once: it has 2."
    assert Run.objects.get(pk=runs[1].pk).reason_sentence == words
    Project.objects.update(slots_per_person=None, runs_at_once=None, budget_month=5.0)
    Attempt.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    Cluster.objects.update(slot_hour_price=1_000.0)
    cache.clear()
    schedule(cast.cluster.pk, timezone.now())
    assert "has spent the 5 that it may in a month" in Run.objects.get(pk=runs[1].pk).reason_sentence
    Cluster.objects.update(slot_hour_price=None)
    cache.clear()
    schedule(cast.cluster.pk, timezone.now())
    assert Run.objects.get(pk=runs[1].pk).status == "SCHEDULED"


def test_a_run_that_starts_again_counts_with_the_slots_that_it_is_to_get(cast: Cast, make_run: MakeRun) -> None:
    make_attempt(make_run(status=Status.RUNNING), [make_node(cast.cluster, slots=4)], ranks=2)
    make_run(status=Status.RECOVERING, created_by=cast.owner, num_nodes=2, slots_per_node=3)
    make_attempt(make_run(status=Status.RESIZING, num_nodes=1, slots_per_node=1), [make_node(cast.cluster)], ranks=2)
    make_run(status=Status.QUEUED)
    other = Project.objects.create(name="other")
    make_run(status=Status.RECOVERING, project=other)
    part = parts_of(Project.objects.filter(pk=cast.project.pk), timezone.now())["default"]
    assert (part.held, part.num_runs, part.by_person) == (10.0, 3, {cast.mate.pk: 4.0, cast.owner.pk: 6.0})


def test_a_notice_of_a_limit_comes_once_a_month_and_again_for_another_limit(cast: Cast, make_run: MakeRun) -> None:
    make_attempt(make_run(status=Status.RUNNING), [make_node(cast.cluster, slots=4)], ranks=4)
    Project.objects.create(name="unlimited")
    Project.objects.filter(pk=cast.project.pk).update(slots=5, runs_at_once=9)
    first = datetime(2026, 5, 3, tzinfo=UTC)
    for day in range(40):
        write_notices(first + timedelta(days=day))
        cast.project.refresh_from_db()
        month = first if day < 29 else datetime(2026, 6, 1, tzinfo=UTC)
        words = "Project default holds 4 of the 5 slots that it may."
        assert cast.project.notices == {"slots": LimitNotice(month, words)}, day
    cast.owner.is_superuser = True
    limits = {name: getattr(cast.project, name) for name in actions.LIMITS}
    actions.set_limits(actor=cast.owner, project=cast.project, **limits)
    assert cast.project.notices.keys() == {"slots"}
    actions.set_limits(actor=cast.owner, project=cast.project, **{**limits, "slots": 4})
    assert Project.objects.get(pk=cast.project.pk).notices == {}
    write_notices(first)
    assert "4 of the 4" in Project.objects.get(pk=cast.project.pk).notices["slots"].sentence

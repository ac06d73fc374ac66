"""The way of a trace: down to the nodes, and what became of it into the history."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.life.reconcile.listening import TraceDocument, sentence_of
from runs.models import Event
from runs.records.metrics.models import Telemetry
from tests.runs.life.reconcile.conftest import Yard
from tests.spools import Spool
from trainyard.contract.facts import TraceFacts


@pytest.fixture
def training(yard: Yard) -> Yard:
    yard.start()
    Telemetry.objects.update_or_create(
        run_id=yard.run.pk, defaults={"step": 10, "step_at": timezone.now().timestamp(), "median_step_s": 0.1}
    )
    return yard


def tell(yard: Yard, rank: int, trace: actions.Trace, **more: Any) -> None:
    spool = Spool()
    spool.begin(rank=rank)
    data = {"id": trace.id, "first": trace.first_step, "last": trace.last_step, **more}
    spool.add("facts", name="trace", data=data, at=1.7e9)
    commit(yard.run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(spool.bytes))


def sentences(yard: Yard) -> list[str]:
    found = Event.objects.filter(run=yard.run, code__in=("traced", "trace-failed"))
    return list(found.order_by("pk").values_list("sentence", flat=True))


def test_every_node_hears_which_steps_and_the_history_says_once_that_they_were_traced(training: Yard) -> None:
    yard = training
    steps = yard.run.steps
    assert steps is not None and steps > 80
    trace = actions.trace_run(actor=yard.cast.mate, run=yard.run, steps=2)
    yard.say("running")
    yard.tick()
    wish = {"id": trace.id, "first": trace.first_step, "steps": 2, "ranks": "all"}
    assert [voice.heard()["attempts"][yard.attempt.pk]["trace"] for voice in yard.voices] == [wish, wish]
    tell(yard, 0, trace, file=f"traces/step-{trace.first_step}.rank-0.json.gz", bytes=10)
    yard.tick()
    assert sentences(yard) == []
    tell(yard, 1, trace, file=f"traces/step-{trace.first_step}.rank-1.json.gz", bytes=10)
    yard.tick()
    yard.tick()
    assert sentences(yard) == [f"Traced steps {trace.first_step} to {trace.last_step} on 2 ranks."]
    [event] = Event.objects.filter(run=yard.run, code="traced")
    assert event.data["files"] == [f"traces/step-{trace.first_step}.rank-{rank}.json.gz" for rank in range(2)]
    actions.trace_run(actor=yard.cast.mate, run=yard.run)


def test_what_an_earlier_trace_said_does_not_count_for_the_next(training: Yard) -> None:
    yard = training
    trace = actions.trace_run(actor=yard.cast.mate, run=yard.run)
    for rank in range(2):
        tell(yard, rank, trace._replace(id="another"), file="traces/x")
    yard.tick()
    assert sentences(yard) == []


def test_an_attempt_that_ends_before_says_that_nothing_was_heard(training: Yard) -> None:
    yard = training
    trace = actions.trace_run(actor=yard.cast.mate, run=yard.run, steps=1)
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    yard.say("ended")
    for _ in range(10):
        if yard.tick() == "CANCELLED":
            break
    step = trace.first_step
    assert sentences(yard) == [
        f"Step {step} could not be traced: rank 0: its node did not answer; rank 1: its node did not answer."
    ]


def test_a_trace_of_some_ranks_alone_says_why_not_of_the_others() -> None:
    trace: TraceDocument = {
        "id": "t", "first": 120, "steps": 3, "ranks": [0, 1], "asked_at": 0.0, "is_told": False,
    }  # fmt: skip
    why = "step 120 was over when the wish arrived, at step 124"
    found = {0: TraceFacts(file="traces/a"), 1: TraceFacts(why=why)}
    assert sentence_of(trace, found) == (
        "Traced steps 120 to 122 on 1 rank of 2; rank 1: step 120 was over when the wish arrived, at step 124."
    )

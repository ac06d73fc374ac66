"""Asking for a trace, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.actions import Refused
from runs.models import Attempt, Run
from runs.records.metrics.models import Telemetry
from runs.rights.access import Forbidden
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec
from trainyard.spec import SpecError

MakeRun = Callable[..., Run]


def training(cast: Cast, make_run: MakeRun, **telemetry: Any) -> Run:
    """A run of two ranks that is at step 100 of 2,000 and takes a tenth of a second for each."""
    run = make_run(status=Status.RUNNING, spec=spec(train={"steps": 2000}))
    make_attempt(run, [make_node(cast.cluster), make_node(cast.cluster)], phase=Phase.RUNNING)
    known = {"step": 100, "step_at": timezone.now().timestamp(), "median_step_s": 0.1, **telemetry}
    Telemetry.objects.create(run_id=run.pk, **known)
    return run


def attempt_of(run: Run) -> Attempt:
    return run.attempts.latest("number")


def test_the_steps_are_so_far_ahead_that_every_rank_hears_of_them_in_time(cast: Cast, make_run: MakeRun) -> None:
    run = training(cast, make_run)
    trace = actions.trace_run(actor=cast.mate, run=run)
    assert 152 <= trace.first_step <= 160  # five seconds on
    assert (trace.last_step, trace.ranks) == (trace.first_step + 2, [0, 1])
    said = attempt_of(run).trace
    assert said is not None
    assert {name: said[name] for name in ("id", "first", "steps", "ranks")} == {
        "id": trace.id, "first": trace.first_step, "steps": 3, "ranks": "all",
    }  # fmt: skip
    event = run.events.get(code="trace-asked")
    assert event.sentence == f"mate asked for a trace of steps {trace.first_step} to {trace.last_step}."
    assert event.actor == cast.mate


def test_some_ranks_may_be_chosen_and_one_step(cast: Cast, make_run: MakeRun) -> None:
    run = training(cast, make_run)
    trace = actions.trace_run(actor=cast.mate, run=run, steps=1, ranks=[1, 1])
    assert (trace.ranks, trace.last_step) == ([1], trace.first_step)
    assert f"a trace of step {trace.first_step}." in run.events.get(code="trace-asked").sentence


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "0 is not accepted; accepted: 1 to 20"),
        ({"steps": 21}, "21 is not accepted"),
        ({"ranks": [0, 2]}, "2 is no rank of this run; accepted: all, or numbers from 0 to 1"),
        ({"ranks": [-1]}, "-1 is no rank"),
        ({"ranks": []}, "no rank is chosen"),
    ],
)
def test_what_cannot_be_is_named(cast: Cast, make_run: MakeRun, changes: dict[str, Any], message: str) -> None:
    run = training(cast, make_run)
    with pytest.raises(SpecError) as refused:
        actions.trace_run(actor=cast.mate, run=run, **changes)
    assert message in str(refused.value.errors[0])
    assert attempt_of(run).trace is None


def test_a_second_trace_waits_for_the_first(cast: Cast, make_run: MakeRun) -> None:
    run = training(cast, make_run)
    actions.trace_run(actor=cast.mate, run=run)
    with pytest.raises(Refused, match="is under way") as refused:
        actions.trace_run(actor=cast.mate, run=run)
    assert refused.value.code == "trace-under-way"
    attempt = attempt_of(run)
    Attempt.objects.filter(pk=attempt.pk).update(trace={**(attempt.trace or {}), "is_told": True})
    actions.trace_run(actor=cast.mate, run=run)


def test_a_trace_of_which_nothing_was_heard_keeps_nobody_from_another(cast: Cast, make_run: MakeRun) -> None:
    run = training(cast, make_run)
    first = actions.trace_run(actor=cast.mate, run=run)
    attempt = attempt_of(run)
    asked_at = timezone.now().timestamp() - 601
    Attempt.objects.filter(pk=attempt.pk).update(trace={**(attempt.trace or {}), "asked_at": asked_at})
    second = actions.trace_run(actor=cast.mate, run=run)
    asked = attempt_of(run).trace
    assert asked is not None
    assert asked["id"] == second.id != first.id


@pytest.mark.parametrize("status", [Status.QUEUED, Status.STARTING, Status.SUCCEEDED])
def test_only_a_run_that_trains_is_traced(cast: Cast, make_run: MakeRun, status: Status) -> None:
    run = make_run(status=status)
    with pytest.raises(Refused, match=f"is {status}. Only steps of a run that trains"):
        actions.trace_run(actor=cast.mate, run=run)


@pytest.mark.parametrize(
    ("task", "code", "sentence"),
    [
        ({"script": "train.py"}, "script", "is a script, whose steps Trainyard does not see. Trace them in it"),
        ({"recipe": "communication-benchmark"}, "no-steps", "measures its nodes and trains nothing"),
    ],
)
def test_what_has_no_steps_to_see_is_refused_with_why(
    cast: Cast, make_run: MakeRun, task: dict[str, Any], code: str, sentence: str
) -> None:
    run = make_run(status=Status.RUNNING)
    run.spec = {**run.spec, "task": task}
    with pytest.raises(Refused) as refused:
        actions.trace_run(actor=cast.mate, run=run)
    assert refused.value.code == code and sentence in refused.value.sentence


def test_before_the_first_step_and_near_the_last_it_is_refused(cast: Cast, make_run: MakeRun) -> None:
    run = training(cast, make_run, step=None)
    with pytest.raises(Refused, match="has not taken a step yet"):
        actions.trace_run(actor=cast.mate, run=run)
    Telemetry.objects.filter(run_id=run.pk).update(step=1990)
    with pytest.raises(Refused, match=r"is at step 1,990 of 2,000: the 3 steps from 2,0\d\d on"):
        actions.trace_run(actor=cast.mate, run=run)


def test_a_viewer_may_not(cast: Cast, make_run: MakeRun) -> None:
    with pytest.raises(Forbidden):
        actions.trace_run(actor=cast.viewer, run=training(cast, make_run))

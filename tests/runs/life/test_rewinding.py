"""Going back and skipping batches: what is refused, what is kept, and what the next attempt is told."""

from __future__ import annotations

import pytest
from django.utils import timezone

from runs import actions
from runs.actions import Refused
from runs.life.reconcile.restoring import missing_origin, offered_to
from runs.life.rewinding import skips_of
from runs.models import Attempt, Run
from runs.records.checkpoints import read as checkpoints
from runs.records.metrics.models import Checkpoint, Telemetry
from runs.values.status import Phase, Status, Wanted
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api
from tests.series import write_series
from trainyard.spec import SpecError

pytestmark = pytest.mark.django_db(databases="__all__")


def trained(cast: Cast, *, steps: int = 300, kept: tuple[int, ...] = (100, 200), **changes: object) -> Attempt:
    """A live attempt that has trained so many steps."""
    run = make_run(cast, spec=spec(checkpoint={"every_steps": 100}), status=Status.RUNNING, **changes)
    attempt = make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)
    write_series(run, "train/loss", [1.0] * steps, attempt=attempt.fence)
    Telemetry.objects.filter(pk=run.pk).update(attempt=attempt.fence)
    for step in kept:
        Checkpoint.objects.create(run_id=run.pk, step=step, fence=attempt.fence, at=0.0)
    return attempt


def back(cast: Cast, run: Run, to: int, first: int, last: int) -> Run:
    return actions.rewind_run(actor=cast.mate, run=run, to=to, first=first, last=last)


def test_the_ranks_end_at_once_and_the_decision_is_kept(cast: Cast) -> None:
    attempt = trained(cast)
    run = back(cast, attempt.run, 150, 160, 170)
    assert (run.status, run.wanted) == (Status.STOPPING, Wanted.PAUSE)
    assert run.reason_sentence == (
        "mate asked to go back to step 150 and to leave out the batches of steps 160 to 170. It goes on from the "
        "checkpoint of step 100."
    )
    stop = Attempt.objects.get(pk=attempt.pk).stop
    assert (stop["why"], stop["at_once"]) == ("rewind", True)
    (rewind,) = Run.objects.get(pk=run.pk).known_rewinds
    assert (rewind.fence, rewind.to_step, rewind.first, rewind.last, rewind.by) == (1, 150, 160, 170, "mate")


def test_the_next_attempt_is_offered_what_lies_before_and_what_came_after(cast: Cast) -> None:
    attempt = trained(cast)
    run = back(cast, attempt.run, 150, 160, 170)
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now())
    second = make_attempt(run, [make_node(cast.cluster)])
    assert [(one.step, one.fence) for one in offered_to(second)] == [(100, 1)]
    assert [(one.fence, one.first, one.last) for one in skips_of(run)] == [(1, 160, 170)]
    Checkpoint.objects.create(run_id=run.pk, step=300, fence=2, at=0.0)
    assert [(one.step, one.fence) for one in checkpoints.candidates(run.pk, before=3, number=9)] == [(300, 2), (100, 1)]


def test_a_checkpoint_that_was_removed_meanwhile_is_missed_and_the_run_does_not_begin_anew(cast: Cast) -> None:
    attempt = trained(cast)
    run = back(cast, attempt.run, 150, 160, 170)
    Checkpoint.objects.filter(run_id=run.pk).delete()
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now())
    second = make_attempt(run, [make_node(cast.cluster)])
    assert missing_origin(second, offered_to(second)) == "of step 150 or before"
    Run.objects.filter(pk=run.pk).update(recovery={"after_fence": 2})  # a person has started it again since
    assert missing_origin(Attempt.objects.get(pk=second.pk), []) == ""


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.PAUSED])
def test_a_run_without_ranks_is_queued_again(cast: Cast, status: Status) -> None:
    attempt = trained(cast)
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now())
    attempt.placements.update(phase=Phase.ENDED)
    Run.objects.filter(pk=attempt.run_id).update(status=status)
    run = back(cast, Run.objects.get(pk=attempt.run_id), 0, 1, 3)
    assert run.status == Status.QUEUED and len(run.known_rewinds) == 1


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((100, 170, 160), "170:160 has its first step behind its last"),
        ((100, 100, 110), "step 100 is trained before step 100 ends"),
        ((-1, 5, 6), "-1 is no step"),
    ],
)
def test_steps_that_do_not_go_together_are_refused(cast: Cast, steps: tuple[int, int, int], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        back(cast, trained(cast).run, *steps)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((100, 299, 301), "Step 301 has not been trained yet: run hello-gpt is at step 300"),
        ((50, 60, 70), "no checkpoint up to step 50. Its oldest is of step 100. To go back to step 0 starts anew."),
    ],
)
def test_what_the_state_does_not_allow_is_refused(cast: Cast, steps: tuple[int, int, int], words: str) -> None:
    run = trained(cast).run
    with pytest.raises(Refused, match=words):
        back(cast, run, *steps)
    assert Run.objects.get(pk=run.pk).rewinds == []


def test_a_script_a_benchmark_and_a_run_that_succeeded_are_refused(cast: Cast) -> None:
    for document, words in (
        (spec(task={"script": "train.py"}), "a script, which reads its data by itself"),
        (spec(task={"recipe": "communication-benchmark"}), "trains nothing"),
    ):
        with pytest.raises(Refused, match=words):
            back(cast, make_run(cast, spec=document, status=Status.RUNNING), 0, 1, 2)
    with pytest.raises(Refused, match="is SUCCEEDED"):
        back(cast, make_run(cast, status=Status.SUCCEEDED), 0, 1, 2)
    with pytest.raises(Refused, match="Ask again when it trains"):
        back(cast, make_run(cast), 0, 1, 2)


def test_rest_answers_with_the_decision(cast: Cast) -> None:
    run = trained(cast).run
    body = {"to": 100, "first": 120, "last": 130}
    answer = Api(cast.mate)("POST", f"/runs/{run.pk}/rewind", body)
    assert answer.status_code == 200, answer.content
    (rewind,) = answer.json()["rewinds"]
    assert (rewind["to_step"], rewind["first"], rewind["last"], rewind["by"]) == (100, 120, 130, "mate")
    assert Api(cast.mate)("POST", f"/runs/{run.pk}/rewind", body).status_code == 409

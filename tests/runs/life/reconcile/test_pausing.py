"""Pausing by a person: what the ranks are asked, what the run becomes, and how it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from runs import actions
from runs.models import HeldSlot, Node, Run
from runs.values.refused import Refused
from tests.runs.life.reconcile.conftest import Yard
from tests.runs.life.reconcile.test_stopping import stopped, wanted
from tests.voices import rank
from trainyard.failures.ranks import STOPPED_WITH_ANOTHER

SIGTERM = 15


@pytest.fixture(autouse=True)
def keeps_checkpoints(yard: Yard) -> None:
    yard.run.spec["checkpoint"] = {"every_steps": 100, "keep": 3}
    yard.run.save(update_fields=["spec"])


def pause(yard: Yard) -> Run:
    return actions.pause_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))


def ended(number: int, **evidence: Any) -> dict[str, Any]:
    return {**stopped(**evidence), "ranks": [rank(number, 9.0, exit_code=None, signal=SIGTERM)]}


def say_saved(yard: Yard) -> None:
    yard.say("ended", 0, **ended(0, saved={"step": 152, "saved": True}))
    yard.say("ended", 1, **ended(1))


def test_a_paused_run_says_what_it_saved_and_frees_its_slots(yard: Yard) -> None:
    yard.start()
    assert pause(yard).reason_sentence.startswith("mate asked to pause: its ranks save a checkpoint and end, within ")
    assert yard.tick() == "STOPPING"
    assert (wanted(yard)["wanted"], wanted(yard)["grace_s"]) == ("stop", None)
    say_saved(yard)
    yard.tick()
    assert yard.tick() == "PAUSED"
    assert yard.run.reason_sentence == "Paused as asked: saved step 152 and ended in 2.5 s."
    assert (yard.run.reason_code, yard.run.reason_evidence["saved_step"], yard.run.ended_at) == ("paused", 152, None)
    assert not HeldSlot.objects.exists()
    assert yard.tick() == "PAUSED"  # nothing places it


def test_a_resumed_run_gets_a_new_attempt(yard: Yard) -> None:
    yard.start()
    pause(yard)
    with pytest.raises(Refused, match="still saving"):
        actions.resume_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
    say_saved(yard)
    yard.tick()
    yard.tick()
    actions.resume_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
    yard.start()
    assert (yard.attempt.number, yard.attempt.fence) == (2, 2)


def test_a_resumed_run_is_placed_before_those_that_came_after_it(yard: Yard) -> None:
    later = Run.make(
        project=yard.run.project, cluster=yard.run.cluster, name="later", spec=yard.run.spec, created_by=yard.cast.mate
    )
    Node.objects.update(slots=1)
    yard.start()
    pause(yard)
    actions.pause_run(actor=yard.cast.mate, run=later)
    say_saved(yard)
    yard.tick()
    yard.tick()
    for run in (later, Run.objects.get(pk=yard.run.pk)):
        actions.resume_run(actor=yard.cast.mate, run=Run.objects.get(pk=run.pk))
    assert yard.tick() == "SCHEDULED"
    later.refresh_from_db()
    assert later.status == "QUEUED"


def test_a_run_that_finishes_while_it_is_paused_has_succeeded(yard: Yard) -> None:
    yard.start()
    pause(yard)
    for number in (0, 1):
        yard.say("ended", number, **{**stopped(), "ranks": [rank(number, 9.0)]})
    yard.tick()
    assert yard.tick() == "SUCCEEDED"


def test_a_script_that_ends_with_0_because_it_was_asked_to_is_paused(yard: Yard) -> None:
    Run.objects.update(spec={**yard.run.spec, "task": {"script": "train.py"}})
    yard.start()
    assert "it finds the folder that TRAINYARD_CHECKPOINTS names" in pause(yard).reason_sentence
    for number in (0, 1):
        yard.say("ended", number, **{**stopped(), "ranks": [rank(number, 9.0)]})
    yard.tick()
    assert yard.tick() == "PAUSED"
    assert yard.run.reason_sentence == "Paused as asked: its ranks ended by themselves in 2.5 s."


def test_a_run_that_fails_while_it_is_paused_has_failed(yard: Yard) -> None:
    yard.start()
    pause(yard)
    yard.say("ended", 0, ranks=[rank(0, 5.0, exit_code=1)], reason={"code": "rank_failed", "sentence": "x"})
    yard.say("ended", 1, **ended(1))
    yard.tick()
    assert yard.tick() == "FAILED"
    assert yard.run.reason_code == "rank-failed"


def test_a_rank_that_hears_of_the_pause_from_another_one_has_not_failed(yard: Yard) -> None:
    yard.start()
    pause(yard)
    yard.tick()
    yard.say("ended", 0, **ended(0, saved={"step": 152, "saved": True}))
    heard = {"code": "rank_killed", "sentence": "x", "evidence": {"rank": 1, "stderr": [STOPPED_WITH_ANOTHER]}}
    yard.say(
        "ended", 1, ranks=[rank(1, 9.0, exit_code=None, signal=SIGTERM)], reason=heard
    )  # its node had not been told
    yard.tick()
    assert yard.tick() == "PAUSED"
    assert yard.run.reason_sentence.startswith("Paused as asked: saved step 152")


def test_a_start_is_paused_before_any_rank_is_there(yard: Yard) -> None:
    assert yard.tick() == "SCHEDULED"
    pause(yard)
    assert yard.tick() == "PAUSED"
    assert yard.run.reason_sentence == "Paused as asked, before a rank had started."


def test_a_stop_goes_before_a_pause_and_asks_for_the_same_orderly_end(yard: Yard) -> None:
    yard.start()
    pause(yard)
    yard.tick()
    actions.stop_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
    yard.tick()
    assert wanted(yard)["grace_s"] is None
    with pytest.raises(Refused, match="is being stopped"):
        pause(yard)
    say_saved(yard)
    yard.tick()
    assert yard.tick() == "CANCELLED"
    assert yard.run.reason_sentence == "Stopped as asked: saved step 152 and ended in 2.5 s."


def test_a_recipe_without_checkpoints_is_not_paused_once_it_trains(yard: Yard) -> None:
    Run.objects.update(spec={**yard.run.spec, "checkpoint": {"every_steps": 0, "keep": 3}})
    yard.start()
    with pytest.raises(Refused, match=r"cannot be paused.*checkpoint\.every_steps is 0"):
        pause(yard)
    assert yard.tick() == "RUNNING"


def test_a_pause_without_contact_waits_for_it(yard: Yard) -> None:
    yard.start()
    yard.later(30)
    yard.tick(0, 1)
    assert pause(yard).status == "STOPPING"
    yard.later(700)
    assert yard.tick(0, 1) in ("STOPPING", "LOST")
    say_saved(yard)
    yard.tick()
    yard.tick()
    assert yard.tick() == "PAUSED"


def test_a_rank_that_is_killed_while_it_saves_leaves_the_run_paused(yard: Yard) -> None:
    yard.start()
    pause(yard)
    yard.tick()
    yard.say(
        "ended", 0, ranks=[rank(0, 5.0, exit_code=None, signal=9)], reason={"code": "rank_failed", "sentence": "x"}
    )
    yard.say("ended", 1, **ended(1))
    yard.tick()
    assert yard.tick() == "PAUSED"
    assert yard.run.reason_sentence == (
        "Rank 0 on node-a was killed by SIGKILL (9). It was being paused: it goes on from the start when it is resumed."
    )
    first = yard.attempt
    assert first.known_cause is not None and first.known_cause.cause_class == "killed"
    actions.resume_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
    yard.start()
    assert (yard.attempt.number, yard.run.wanted) == (2, "run")

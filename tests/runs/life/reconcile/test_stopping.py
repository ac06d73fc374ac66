"""Stopping by a person or a time limit, once or twice, and the words for what came of it."""

from __future__ import annotations

from datetime import timedelta
from signal import SIGTERM
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.life import stopping
from runs.models import Attempt, Run
from tests.cast import spec
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import rank, report_of

SCRIPT = spec(task={"script": "train.py"})
RECIPE = spec(checkpoint={"every_steps": 100})


def wanted(yard: Yard, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = yard.voices[number].heard()["attempts"][yard.attempt.pk]
    return found


def stopped(**evidence: Any) -> dict[str, Any]:
    told = {"took_s": 2.5, "grace_s": 60.0, "killed": [], "hurried": False, "saved": None, **evidence}
    return {
        "reason": {"code": "stopped", "sentence": "", "evidence": told},
        "ranks": [rank(0, 9.0, exit_code=None, signal=SIGTERM)],
    }


def test_a_stop_gives_the_ranks_what_the_spec_says(yard: Yard) -> None:
    yard.start()
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    assert yard.tick() == "STOPPING"
    assert (wanted(yard)["wanted"], wanted(yard)["grace_s"]) == ("stop", None)
    assert "Stop again ends them at once" in yard.run.reason_sentence


def test_a_second_stop_ends_the_ranks_at_once_and_a_double_click_does_not(yard: Yard) -> None:
    yard.start()
    for _ in range(2):
        actions.stop_run(actor=yard.cast.mate, run=yard.run)
    yard.tick()
    assert wanted(yard)["grace_s"] is None
    earlier = timezone.now().timestamp() - 3
    Attempt.objects.update(stop={"why": "asked", "at": earlier, "at_once": False})
    actions.stop_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
    yard.tick()
    assert wanted(yard)["grace_s"] == 0.0
    assert yard.run.events.filter(code="stopping-at-once").count() == 1
    yard.say("ended", 0, **stopped(took_s=3.1, killed=[0]))
    yard.say("ended", 1, **stopped(took_s=3.0))
    yard.tick()
    assert yard.tick() == "CANCELLED"
    assert yard.run.reason_sentence == "Stopped as asked: rank 0 was killed at once, 3.1 s after the first Stop."


def test_a_run_that_had_made_its_last_step_before_the_stop_came_has_succeeded(yard: Yard) -> None:
    yard.start()
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    yard.tick()
    for number in (0, 1):
        yard.say("ended", number, **{**stopped(), "ranks": [rank(number, 9.0)]})
    yard.tick()
    assert yard.tick() == "SUCCEEDED"


def test_the_time_limit_stops_a_run_once_and_says_so(yard: Yard) -> None:
    Run.objects.update(spec={**yard.run.spec, "limits": {"time": "2h", "grace": "60s"}})
    yard.start()
    Attempt.objects.update(go_at=yard.now - timedelta(hours=2, seconds=-10))
    assert yard.tick() == "RUNNING"
    yard.later(10)
    assert yard.tick() == "STOPPING"
    assert yard.run.reason_code == "time-limit" and yard.run.reason_sentence.startswith("The time limit of 2 h is over")
    yard.tick()
    yard.say("ended", **stopped(saved={"step": 1520, "saved": True}))
    yard.tick()
    assert yard.tick() == "CANCELLED"
    assert yard.run.reason_code == "time-limit"
    assert yard.run.reason_sentence == "Stopped at its time limit of 2 h: saved step 1,520 and ended in 2.5 s."
    assert yard.run.events.filter(code="time-limit").count() == 2


def test_ranks_that_are_stopped_because_others_failed_have_little_time(yard: Yard) -> None:
    yard.start()
    yard.say("ended", 0, ranks=[rank(0, 5.0, exit_code=1)], reason={"code": "rank_failed", "sentence": "x"})
    yard.tick()
    assert (wanted(yard, 1)["wanted"], wanted(yard, 1)["grace_s"]) == ("stop", 5.0)


@pytest.mark.parametrize(
    ("document", "evidence", "sentence"),
    [
        (RECIPE, {"saved": {"step": 152, "saved": True}}, "saved step 152 and ended in 2.5 s."),
        (RECIPE, {}, "ended in 2.5 s, without a step to save."),
        (RECIPE, {"saved": {"step": 7, "saved": False}}, "ended behind step 7 in 2.5 s. Its checkpoint could not be"),
        (RECIPE, {"saved": {"step": 7, "saved": None}}, "ended behind step 7 in 2.5 s. Nothing was saved: it keeps"),
        (SCRIPT, {}, "its ranks ended by themselves in 2.5 s."),
        (SCRIPT, {"took_s": 60.2, "killed": [1]}, "rank 1 was killed after 60 s, the grace that limits.grace gives."),
        (SCRIPT, {"took_s": 60.2, "killed": [0, 1]}, "ranks 0 and 1 were killed after 60 s"),
    ],
)
def test_each_outcome_is_told_apart(document: dict[str, Any], evidence: dict[str, Any], sentence: str) -> None:
    _, words, _ = stopping.outcome(document, None, [report_of(**stopped(**evidence))])
    assert words.startswith(f"Stopped as asked: {sentence}")


def test_a_rank_that_was_killed_while_it_was_to_save_is_named() -> None:
    lost = {**stopped(), "ranks": [rank(0, 9.0, exit_code=None, signal=9)]}
    _, words, _ = stopping.outcome(RECIPE, None, [report_of(**lost)])
    assert words == "Stopped as asked: rank 0 was killed by SIGKILL (9) meanwhile, so that no step could be saved."


def test_a_node_of_another_version_says_less(yard: Yard) -> None:
    old = {"reason": {"code": "stopped", "sentence": "", "evidence": {"node": "a"}}, "ranks": [rank(0, 9.0)]}
    assert stopping.outcome(RECIPE, None, [report_of(**old)])[:2] == ("stopped", "Stopped as asked.")

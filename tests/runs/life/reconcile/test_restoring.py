"""What an attempt is offered to go on from, and what the history says of it."""

from __future__ import annotations

from typing import Any

from runs import actions
from runs.models import Event, HeldSlot, Run
from tests.checkpoints import saved, tell
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import rank


def go_of(yard: Yard) -> list[dict[str, Any]]:
    """Bring the newest attempt to its go; return what both nodes are offered."""
    assert yard.tick() == "SCHEDULED"
    yard.say("ready")
    assert yard.tick() == "STARTING"
    heard = [voice.heard()["attempts"][yard.attempt.pk]["go"]["checkpoints"] for voice in yard.voices]
    assert heard[0] == heard[1] == yard.attempt.go["checkpoints"]  # type: ignore[index]
    return heard[0]  # type: ignore[no-any-return]


def fail(yard: Yard) -> None:
    """Rank 0 is killed, everything ends, and a person starts the run again."""
    yard.say("ended", 0, ranks=[rank(0, 10.0, exit_code=None, signal=9)])
    yard.say("ended", 1, ranks=[rank(1, 11.0)])
    assert yard.tick() == "FAILED"
    actions.restart_run(actor=yard.cast.mate, run=yard.run)


def sentences(run: Run, *codes: str) -> list[str]:
    return list(Event.objects.filter(run=run, code__in=codes).order_by("pk").values_list("sentence", flat=True))


def test_a_run_that_starts_anew_is_offered_nothing(yard: Yard) -> None:
    assert go_of(yard) == []
    assert sentences(yard.run, "starting") == ["Every node is ready; the ranks start."]


def test_a_restart_without_a_checkpoint_says_that_it_starts_anew(yard: Yard) -> None:
    yard.start()
    fail(yard)
    assert go_of(yard) == []
    assert sentences(yard.run, "starting")[-1] == (
        "Every node is ready; the ranks start anew: there is no checkpoint of an earlier attempt."
    )
    yard.say("running")
    tell(yard.run, {"state": "anew", "step": 0, "why": "none of the checkpoints that were offered can be used"})
    yard.tick()
    assert sentences(yard.run, "started-anew") == [
        "Starts anew at step 0: none of the checkpoints that were offered can be used."
    ]


def test_a_restart_is_offered_the_newest_sound_checkpoints_first(yard: Yard) -> None:
    go_of(yard)
    yard.say("running")
    yard.tick()
    tell(yard.run, *(saved(step) for step in (100, 200, 300, 400, 500, 600, 700)))
    tell(yard.run, {"state": "deleted", "step": 100}, {"state": "invalid", "step": 700, "why": "torn"})
    fail(yard)
    run = yard.run.pk
    assert go_of(yard) == [{"run": run, "step": step, "fence": 1} for step in (600, 500, 400, 300, 200)]
    assert sentences(yard.run, "starting")[-1] == (
        "Every node is ready; the ranks start, from step 600 of attempt 1 where that is sound."
    )


def test_what_ranks_say_of_restoring_stands_in_the_history_once(yard: Yard) -> None:
    yard.start()
    tell(yard.run, saved(100), saved(200))
    fail(yard)
    go_of(yard)
    yard.say("running")
    tell(yard.run, {"state": "invalid", "step": 200, "fence": 1, "why": "model.safetensors is 12 bytes short."})
    tell(yard.run, {"state": "restored", "step": 100, "fence": 1})
    for _ in range(3):
        yard.tick()
    assert sentences(yard.run, "checkpoint-invalid", "restored") == [
        "The checkpoint of step 200 of attempt 1 is not used: model.safetensors is 12 bytes short.",
        "Continues from step 100 of attempt 1.",
    ]
    event = Event.objects.get(code="restored")
    assert event.attempt == yard.attempt
    assert event.data == {"run": yard.run.pk, "step": 100, "fence": 1, "why": ""}


def test_what_was_said_just_before_the_end_is_told_too(yard: Yard) -> None:
    yard.start()
    tell(yard.run, {"state": "off", "why": "node-a and node-b see different folders"})
    tell(yard.run, {"state": "off", "step": 100, "why": "No space left on device"})
    yard.say("ended", ranks=[rank(0, 10.0)])
    yard.say("ended", 1, ranks=[rank(1, 10.0)])
    assert yard.tick() == "SUCCEEDED"
    assert sentences(yard.run, "checkpoints-off", "checkpoint-left-out") == [
        "No checkpoints are kept: node-a and node-b see different folders.",
        "The checkpoint of step 100 could not be kept: No space left on device.",
    ]


def test_a_run_from_a_checkpoint_of_another_is_offered_that_one_and_later_its_own_first(yard: Yard) -> None:
    origin = Run.objects.create(
        project=yard.cast.project,
        cluster=yard.cast.cluster,
        name="origin",
        spec=yard.run.spec,
        status="SUCCEEDED",
        fence=3,
    )
    tell(origin, saved(200))
    Run.objects.filter(pk=yard.run.pk).update(spec={**yard.run.spec, "checkpoint": {"restore": f"{origin.pk}@200"}})
    first = {"run": origin.pk, "step": 200, "fence": 3}
    assert go_of(yard) == [first]
    assert f"from step 200 of run origin ({origin.pk})" in sentences(yard.run, "starting")[0]
    yard.say("running")
    tell(yard.run, {"state": "restored", "run": origin.pk, "step": 200, "fence": 3}, saved(250))
    yard.tick()
    assert sentences(yard.run, "restored") == [f"Continues from step 200 of run origin ({origin.pk})."]
    fail(yard)
    assert go_of(yard) == [{"run": yard.run.pk, "step": 250, "fence": 1}, first]


def test_a_run_whose_checkpoint_is_gone_fails_and_does_not_start_anew(yard: Yard) -> None:
    spec = {**yard.run.spec, "checkpoint": {"restore": "gone@200"}}
    Run.objects.filter(pk=yard.run.pk).update(spec=spec)
    assert yard.tick() == "SCHEDULED"
    yard.say("ready")
    assert yard.tick() == "FAILED"
    assert yard.run.reason_code == "checkpoint-gone"
    assert yard.run.reason_sentence == ("Checkpoint gone@200, from which this run was to go on, is not there any more.")
    assert yard.voices[0].heard()["attempts"][yard.attempt.pk]["wanted"] == "stop"
    yard.say("ended")
    yard.tick()
    assert not HeldSlot.objects.exists()


def test_what_an_older_attempt_saves_late_is_not_offered(yard: Yard) -> None:
    yard.start()
    tell(yard.run, saved(100))
    fail(yard)
    go_of(yard)
    tell(yard.run, saved(900), fence=1)
    yard.say("running")
    yard.tick()
    fail(yard)
    assert go_of(yard) == [{"run": yard.run.pk, "step": 100, "fence": 1}]

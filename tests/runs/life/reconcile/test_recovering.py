"""A run whose attempt failed is started again by itself, on what is there, as its policy says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runs import actions
from runs.life import reconcile
from runs.models import Event, HeldSlot, Node, Run
from runs.presenting.runs import restarts_document
from runs.records.metrics.models import Telemetry
from runs.recovery.failing import RESTART_REST_LIMIT_S
from runs.recovery.policy import LEFT_OUT_S, is_behind
from tests.cast import make_node, make_run, spec
from tests.checkpoints import saved, tell
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import Voice, rank

TWO_NODES = {"nodes": 2, "processes_per_node": 1, "accelerator": "auto"}


def restarts(yard: Yard, **section: Any) -> None:
    document = spec(resources=TWO_NODES, restarts={"max": 3, **section})
    Run.objects.filter(pk=yard.run.pk).update(spec=document, num_nodes=2, slots_per_node=1, accelerator="auto")
    yard.run.refresh_from_db()


def kill(yard: Yard, number: int = 0, signal: int = 9, **changes: Any) -> str:
    """A rank is killed, and its node and the other one report the end."""
    for node, voice in enumerate(yard.voices[:2]):
        one = rank(node, 10.0 + (node != number))
        if node == number:
            one |= {"exit_code": None, "signal": signal, **changes}
        yard.say("ended", node, ranks=[one])
        voice.up(yard.now)
    return yard.tick()


def sentences(run: Run, code: str) -> list[str]:
    return list(Event.objects.filter(run=run, code=code).order_by("pk").values_list("sentence", flat=True))


def test_a_killed_rank_has_the_run_started_again_without_a_failure(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    tell(yard.run, saved(100))
    assert kill(yard) == "SCHEDULED", "the same tick places it again"
    assert (yard.attempt.number, yard.run.reason_code) == (2, "placed")
    assert sentences(yard.run, "restarting") == [
        "Rank 0 on node-a was killed by SIGKILL (9). Restart 1 of 3 follows at once, from step 100."
    ]
    assert not Event.objects.filter(data__to="FAILED").exists()
    first = yard.run.attempts.first()
    assert first is not None and first.failed is not None
    assert (first.failed.cause, first.failed.kept_step, first.reason_code) == ("killed", 100, "rank-killed")
    assert {slot.placement.attempt_id for slot in HeldSlot.objects.all()} == {yard.attempt.pk}
    yard.say("ready")
    assert yard.tick() == "STARTING"
    yard.say("running")
    assert yard.tick() == "RUNNING"
    assert yard.run.restarts.number == 1 and yard.run.recover_at is None


def test_of_a_script_that_restores_its_own_checkpoint_the_history_says_only_what_is_known(yard: Yard) -> None:
    task = {"script": "train.py", "code": {"sha256": "a" * 64}, "python": "python3"}
    document = {"name": "own", "resources": TWO_NODES, "task": task, "restarts": {"max": 3}}
    Run.objects.filter(pk=yard.run.pk).update(spec=document)
    yard.start()
    Telemetry.objects.create(run_id=yard.run.pk, attempt=1, step=40, step_at=yard.now.timestamp())
    kill(yard)
    assert sentences(yard.run, "restarting") == [
        "Rank 0 on node-a was killed by SIGKILL (9) in step 40. Restart 1 of 3 follows at once."
    ]
    yard.start()
    assert sentences(yard.run, "starting")[-1] == (
        "Every node is ready; the ranks start again; no checkpoint was reported of an earlier attempt."
    )
    Telemetry.objects.filter(pk=yard.run.pk).update(attempt=2, step=41, step_at=yard.now.timestamp() + 60)
    yard.tick()
    (back,) = sentences(yard.run, "recovered")
    assert back.startswith("The first new step came ") and back.endswith(" after the failure.")


def test_a_hint_is_enough(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    yard.say("ended", 0, ranks=[rank(0, 10.0, exit_code=None, signal=9)])
    yard.say("ended", 1, ranks=[rank(1, 11.0)])
    reconcile.reconcile_run(yard.run.pk, yard.now)
    assert yard.status == "SCHEDULED" and yard.attempt.number == 2


def test_the_second_restart_in_a_row_waits_and_keeps_its_slots(yard: Yard) -> None:
    restarts(yard, backoff="5s")
    yard.start()
    assert kill(yard) == "SCHEDULED"
    yard.say("ready")
    yard.tick()
    yard.say("running")
    yard.tick()
    assert kill(yard, 1) == "RECOVERING"
    assert yard.run.reason_sentence == (
        "Rank 1 on node-b was killed by SIGKILL (9). Restart 2 of 3 follows after a pause of 5 s, from the start."
    )
    large = {"nodes": 2, "processes_per_node": 2, "accelerator": "auto"}
    other = make_run(yard.cast, spec=spec(resources=large))
    for _ in range(4):
        assert yard.tick() == "RECOVERING"
    other.refresh_from_db()
    assert other.status == "QUEUED", "the slots are kept for the run that recovers"
    assert yard.tick() == "SCHEDULED" and yard.attempt.number == 3


@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_a_person_ends_the_recovery_at_once(yard: Yard, verb: str) -> None:
    restarts(yard, backoff="1m")
    yard.start()
    kill(yard)
    yard.say("ready")
    yard.tick()
    yard.say("running")
    yard.tick()
    assert kill(yard) == "RECOVERING"
    yard.run.refresh_from_db()
    getattr(actions, f"{verb}_run")(actor=yard.cast.mate, run=yard.run)
    assert yard.status == {"stop": "CANCELLED", "pause": "PAUSED"}[verb] and yard.run.recover_at is None
    yard.later(100)
    assert yard.tick() in ("CANCELLED", "PAUSED")
    assert yard.run.attempts.count() == 2


def test_the_last_restart_ends_in_failed_and_a_person_starts_the_count_anew(yard: Yard) -> None:
    restarts(yard, max=1)
    yard.start()
    assert kill(yard) == "SCHEDULED"
    yard.say("ready")
    yard.tick()
    yard.say("running")
    yard.tick()
    assert kill(yard) == "FAILED"
    assert yard.run.reason_code == "rank-killed"
    assert yard.run.reason_sentence.endswith("It was restarted once within 1 h and kept no newer checkpoint.")
    actions.restart_run(actor=yard.cast.mate, run=yard.run)
    yard.start()
    assert kill(yard) == "SCHEDULED"
    assert yard.run.restarts.number == 1


def test_a_fresh_checkpoint_starts_the_count_anew(yard: Yard) -> None:
    restarts(yard, max=1)
    for number in range(1, 4):
        if number == 1:
            yard.start()
        else:
            yard.say("ready")
            yard.tick()
            yard.say("running")
            yard.tick()
        tell(yard.run, saved(100 * number), fence=number)
        assert kill(yard) == "SCHEDULED", number
        assert (yard.run.restarts.number, yard.run.restarts.total) == (1, number)


def test_an_exception_of_the_users_code_stays_a_failure(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    error = {"type": "ValueError", "message": "no such layer", "traceback": "Traceback\nValueError: no such layer"}
    yard.say("ended", 0, ranks=[rank(0, 10.0, exit_code=1, error=error)])
    yard.say("ended", 1, ranks=[rank(1, 11.0)])
    assert yard.tick() == "FAILED"
    assert yard.run.reason_sentence == "Rank 0 on node-a failed with ValueError: no such layer"


def test_the_same_exception_in_the_same_step_twice_is_the_end(yard: Yard) -> None:
    restarts(yard, on={"user-error": "restart"})
    error = {"type": "ValueError", "message": "no such layer", "traceback": "Traceback\nValueError: no such layer"}
    yard.start()
    assert kill(yard, exit_code=1, error=error, signal=0) == "SCHEDULED"
    yard.say("ready")
    yard.tick()
    yard.say("running")
    yard.tick()
    assert kill(yard, exit_code=1, error=error, signal=0) == "FAILED"
    assert "It failed in the same way before its first step" in yard.run.reason_sentence


def test_an_excluded_node_is_left_out_until_its_time_is_over(yard: Yard) -> None:
    restarts(yard, on={"killed": "exclude-node"})
    yard.start()
    assert kill(yard, 1) == "RECOVERING"
    assert "node-b is left out until" in sentences(yard.run, "restarting")[0]
    yard.tick()
    assert yard.run.reason_sentence == (
        "Restart 1 of 3: waiting for other nodes on cluster local: node-b is left out, and the rest cannot hold it."
    )
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    assert yard.tick() == "SCHEDULED"
    assert [one.node.name for one in yard.placements] == ["node-a", "node-c"]


def test_an_excluded_node_is_tried_again(yard: Yard) -> None:
    restarts(yard, on={"killed": "exclude-node"})
    yard.start()
    assert kill(yard, 1) == "RECOVERING"
    others = make_run(yard.cast, spec=spec())
    yard.tick()
    others.refresh_from_db()
    assert others.status == "SCHEDULED", "it keeps nobody from nodes that it may not have"
    yard.later(LEFT_OUT_S)
    for voice in yard.voices:
        voice.up(yard.now)
    assert yard.tick() == "SCHEDULED"
    assert [one.node.name for one in yard.placements] == ["node-a", "node-b"]


def test_a_node_that_is_lost_is_replaced_by_another(yard: Yard) -> None:
    restarts(yard)
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    yard.start()
    lost = {"type": "DistNetworkError", "message": "Connection closed by peer [127.0.0.1]:42665"}
    for _ in range(12):
        yard.say("ended", 0, ranks=[rank(0, 10.0, exit_code=1, error=lost)])
        if yard.tick(1) != "RUNNING":
            break
    for _ in range(12):
        yard.tick(1)
    assert yard.status == "SCHEDULED"
    assert [one.node.name for one in yard.placements] == ["node-a", "node-c"]
    assert HeldSlot.objects.filter(node__name="node-b").count() == 1, "it has not confirmed that its rank is gone"
    assert "node-b is out of contact" in sentences(yard.run, "restarting")[0]


def test_another_control_that_is_slower_changes_nothing(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    kill(yard)
    events = Event.objects.count()
    assert reconcile.tick(yard.now + timedelta(milliseconds=10))
    reconcile.reconcile_run(yard.run.pk, yard.now)
    assert Event.objects.count() == events and yard.run.attempts.count() == 2
    assert Node.objects.count() == 2


def test_the_history_says_when_the_run_was_back_where_it_had_been(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    Telemetry.objects.create(run_id=yard.run.pk, attempt=1, step=112, step_at=yard.now.timestamp())
    tell(yard.run, saved(100))
    broke_at = yard.now.timestamp()
    yard.say("ended", 0, ranks=[rank(0, broke_at, exit_code=None, signal=9)])
    yard.say("ended", 1, ranks=[rank(1, broke_at + 0.1)])
    yard.later(265)  # nobody was there to read it
    yard.tick()
    yard.tick()
    assert sentences(yard.run, "restarting")[0].endswith(
        "in step 112. Restart 1 of 3 follows at once, from step 100: 12 steps are trained again."
    )
    failed_at = yard.run.restarts.failed_at
    yard.say("ready")
    yard.tick()
    yard.say("running")
    row = Telemetry.objects.filter(pk=yard.run.pk)
    row.update(attempt=2, step=112, step_at=failed_at + 2.0, median_step_s=0.1)
    yard.tick()
    assert not sentences(yard.run, "recovered")
    row.update(step=118, step_at=failed_at + 3.0)
    for _ in range(2):
        yard.tick()
    assert sentences(yard.run, "recovered") == [
        "The first new step came 4 min 28 s after the failure; 12 steps were trained again."
    ]
    assert Event.objects.get(code="recovered").data == {
        "seconds": pytest.approx(failed_at - broke_at + 2.5),
        "steps_again": 12,
        "step": 113,
    }


def test_the_document_says_what_was_used_and_which_nodes_are_left_out(yard: Yard) -> None:
    restarts(yard, on={"killed": "exclude-node"})
    yard.start()
    kill(yard, 1)
    document = restarts_document(yard.run, yard.now)
    assert (document["max"], document["used"], document["total"]) == (3, 1, 1)
    assert document["due_at"] is not None
    assert [(one["node"], one["why"]) for one in document["left_out"]] == [("node-b", "killed there")]
    later = restarts_document(yard.run, yard.now + timedelta(hours=2))
    assert (later["used"], later["left_out"]) == (0, [])


def test_records_that_do_not_come_hold_up_a_restart_for_a_moment_only(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("runs.life.reconcile.loop.look_again_soon", asked.append)
    restarts(yard)
    yard.start()
    for number in (0, 1):
        one = rank(number, 10.0, exit_code=None, signal=9)
        yard.say("ended", number, ranks=[one], producers={f"{number}" * 32: 7})
    reconcile.reconcile_run(yard.run.pk, yard.now)
    assert (yard.status, asked) == ("RUNNING", [yard.run.pk])
    reconcile.reconcile_run(yard.run.pk, yard.now + timedelta(seconds=RESTART_REST_LIMIT_S + 0.1))
    assert (yard.status, yard.attempt.number) == ("SCHEDULED", 2)
    assert asked == [yard.run.pk]


def test_a_kill_before_the_first_step_of_a_restart_still_owes_the_steps_of_before(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    Telemetry.objects.create(run_id=yard.run.pk, attempt=1, step=112, step_at=yard.now.timestamp())
    tell(yard.run, saved(100))
    assert kill(yard) == "SCHEDULED"
    for phase in ("ready", "running"):
        yard.say(phase)
        yard.tick()
    kill(yard)
    words = sentences(yard.run, "restarting")[1]
    assert words.startswith("Rank 0 on node-a was killed by SIGKILL (9). Restart 2 of 3"), "it had no step of its own"
    assert "from step 100: 12 steps are trained again." in words
    assert yard.run.restarts.step == 112


def test_a_run_that_was_sent_back_owes_nothing_of_what_it_left(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    Telemetry.objects.create(run_id=yard.run.pk, attempt=1, step=112, step_at=yard.now.timestamp())
    tell(yard.run, saved(60))
    assert kill(yard) == "SCHEDULED"
    rewind = {"fence": 2, "to_step": 60, "first": 70, "last": 70, "at": 1.0}
    Run.objects.filter(pk=yard.run.pk).update(rewinds=[rewind])
    yard.run.refresh_from_db()
    assert not is_behind(yard.run)

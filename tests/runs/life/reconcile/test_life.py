"""The life of a run as its nodes report it."""

from __future__ import annotations

import pytest
from django.utils import timezone

from runs import actions
from runs.life import reconcile
from runs.life.reconcile.loop import EVERY_S as LATE_EVERY_S
from runs.models import Attempt, Event, HeldSlot, Node, Run
from runs.records.metrics.models import Producer
from runs.values.status import Status
from tests.cast import make_attempt, spec
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import rank
from trainyard.contract.limits import MAX_SLOTS


def test_a_run_goes_from_the_queue_to_its_success(yard: Yard) -> None:
    assert yard.tick() == "SCHEDULED"
    assert HeldSlot.objects.count() == 2
    order = yard.voices[1].heard()["attempts"][yard.attempt.pk]["order"]
    assert (order["node_name"], order["first_rank"], order["world_size"], order["slots"]) == ("node-b", 1, 2, [0])

    yard.say("ready", 0)
    assert yard.tick() == "SCHEDULED"  # not all are ready
    yard.say("ready", 1)
    assert yard.tick() == "STARTING"
    heard = yard.voices[0].heard()["attempts"][yard.attempt.pk]
    assert (heard["wanted"], heard["order"]) == ("run", None)
    assert heard["go"] == {
        "master_addr": "127.0.0.1",
        "master_port": 29511,
        "checkpoints": [],
        "memory": {
            "nodes": [{"node": name, "address": "127.0.0.1", "port": None} for name in ("node-a", "node-b")],
            "restore_above": None,
            "restore_until_step": None,
        },
        "skips": [],
        "workers": [],
    }

    yard.say("running")
    assert yard.tick() == "RUNNING"
    yard.say("ended", 0, ranks=[rank(0, 10.0)])
    assert yard.tick() == "RUNNING"
    yard.say("ended", 1, ranks=[rank(1, 11.0)])
    assert yard.tick() == "SUCCEEDED"
    assert yard.run.ended_at is not None and yard.attempt.ended_at is not None
    assert not HeldSlot.objects.exists()
    codes = list(Event.objects.filter(run=yard.run).values_list("code", flat=True))
    assert codes == ["placed", "starting", "running", "finished"]


def test_success_waits_for_what_the_ranks_wrote(yard: Yard) -> None:
    yard.start()
    yard.say("ended", producers={"f" * 32: 7}, ranks=[rank(0, 10.0)])
    assert yard.tick() == "RUNNING"
    row = Producer.objects.create(run_id=yard.run.pk, producer="f" * 32, attempt=yard.attempt.fence, watermark=6)
    assert yard.tick() == "RUNNING"
    Producer.objects.filter(pk=row.pk).update(watermark=7)
    assert yard.tick() == "SUCCEEDED"
    assert yard.run.reason_code == "finished"


def test_success_does_not_wait_for_ever(yard: Yard) -> None:
    yard.start()
    yard.say("ended", producers={"f" * 32: 7}, ranks=[rank(0, 10.0)])
    yard.tick()
    yard.later(61)
    assert yard.tick() == "SUCCEEDED"
    assert yard.run.reason_code == "telemetry-incomplete"


def test_what_arrives_after_the_success_corrects_what_was_said(yard: Yard) -> None:
    yard.start()
    yard.say("ended", producers={"f" * 32: 7}, ranks=[rank(0, 10.0)])
    yard.tick()
    yard.later(61)
    yard.tick()
    yard.tick()
    yard.run.refresh_from_db()
    assert yard.run.reason_code == "telemetry-incomplete"
    Producer.objects.create(run_id=yard.run.pk, producer="f" * 32, attempt=yard.attempt.fence, watermark=7)
    yard.later(LATE_EVERY_S)
    assert yard.tick() == "SUCCEEDED"
    assert (yard.run.reason_code, "has arrived since" in yard.run.reason_sentence) == ("finished", True)
    yard.later(LATE_EVERY_S)
    yard.tick()
    assert Event.objects.filter(run=yard.run, code="finished").count() == 1


def test_a_node_learns_what_has_arrived(yard: Yard) -> None:
    yard.start()
    fence = yard.attempt.fence
    Producer.objects.create(run_id=yard.run.pk, producer="a" * 32, attempt=fence, watermark=5)
    Producer.objects.create(run_id=yard.run.pk, producer="b" * 32, attempt=fence, watermark=2, has_gap=True)
    yard.tick()
    heard = yard.voices[0].heard()["attempts"][yard.attempt.pk]
    assert heard["watermarks"] == {"a" * 32: 5, "b" * 32: 2}
    assert heard["resend"] == ["b" * 32]


def test_a_cause_on_one_node_comes_before_what_ranks_elsewhere_felt(yard: Yard) -> None:
    yard.start()
    reason = {"code": "folder_deleted", "sentence": "The folder was deleted.", "at": 20.0, "evidence": {}}
    yard.say("ended", 1, ranks=[rank(1, 20.4, exit_code=None, signal=15)])
    assert yard.tick() == "RUNNING"
    yard.say("ended", 0, reason=reason, ranks=[rank(0, 20.5, exit_code=None, signal=15)])
    assert yard.tick() == "FAILED"
    assert (yard.run.reason_code, yard.run.reason_sentence) == ("folder-deleted", "The folder was deleted.")


def test_the_rank_that_failed_first_is_the_reason(yard: Yard) -> None:
    yard.start()
    error = {"type": "ValueError", "message": "no such layer", "traceback": "Traceback …"}
    yard.say("ended", 0, ranks=[rank(0, 20.5, exit_code=1, error={"type": "RuntimeError", "message": "peer gone"})])
    assert yard.tick() == "RUNNING"  # the other node is to stop first
    assert yard.voices[1].heard()["attempts"][yard.attempt.pk]["wanted"] == "stop"
    yard.say("ended", 1, ranks=[rank(1, 20.1, exit_code=1, error=error)])
    assert yard.tick() == "FAILED"
    assert yard.run.reason_code == "rank-failed"
    assert yard.run.reason_sentence == "Rank 1 on node-b failed with ValueError: no such layer"
    assert yard.run.reason_evidence["traceback"] == "Traceback …"
    assert (yard.run.reason_evidence["rank"], yard.run.reason_evidence["node"]) == (1, "node-b")


def test_a_rank_that_was_killed_is_named_with_its_signal(yard: Yard) -> None:
    yard.start()
    yard.say("ended", 0, ranks=[rank(0, 20.0, exit_code=None, signal=9)])
    yard.say("ended", 1, ranks=[rank(1, 21.0, exit_code=1)])
    yard.tick()
    assert yard.tick() == "FAILED"
    assert (yard.run.reason_code, yard.run.reason_sentence) == (
        "rank-killed",
        "Rank 0 on node-a was killed by SIGKILL (9).",
    )


def test_ranks_that_our_own_stop_ended_are_not_the_reason(yard: Yard) -> None:
    yard.start()
    yard.say("ended", 0, ranks=[rank(0, 20.0, exit_code=3)])
    yard.tick()
    stopped = {"code": "stopped", "sentence": "The run was asked to stop."}
    yard.say("ended", 1, reason=stopped, ranks=[rank(1, 2.0, exit_code=None, signal=15)])  # its clock is behind
    assert yard.tick() == "FAILED"
    assert yard.run.reason_evidence["rank"] == 0


def test_a_failed_run_does_not_wait_for_ever_for_its_other_nodes(yard: Yard) -> None:
    yard.start()
    yard.say("ended", 0, ranks=[rank(0, 20.0, exit_code=3)])
    yard.tick()
    for _ in range(21):
        yard.say("stopping", 1)
        yard.tick()
    assert yard.status == "FAILED"
    assert HeldSlot.objects.count() == 1  # node-b has not said that its ranks are gone
    yard.say("ended", 1)
    yard.tick()
    assert not HeldSlot.objects.exists()


def test_a_node_that_refuses_fails_the_run(yard: Yard) -> None:
    yard.tick()
    reason = {"code": "no_torch", "sentence": "Node node-a has no torch.", "evidence": {}}
    yard.say("refused", 0, reason=reason)
    yard.say("ready", 1)
    yard.tick()
    yard.say("ended", 1, reason={"code": "stopped", "sentence": ""})
    assert yard.tick() == "FAILED"
    assert (yard.run.reason_code, yard.run.reason_sentence) == ("node-refused", "Node node-a has no torch.")


def test_processes_that_are_missing_on_a_node_that_answers_are_proof(yard: Yard) -> None:
    yard.start()
    yard.voices[0].forget(yard.placements[0])
    for _ in range(4):
        yard.say("running", 1)
        yard.tick()
    yard.say("ended", 1)
    yard.tick()
    assert yard.status == "FAILED"
    assert yard.run.reason_code == "processes-missing"


def test_a_run_that_up_ended_is_interrupted(yard: Yard) -> None:
    yard.start()
    reason = {"code": "interrupted", "sentence": "Trainyard was stopped.", "evidence": {}}
    yard.say("ended", reason=reason, ranks=[rank(0, 20.0, exit_code=None, signal=15)])
    yard.tick()
    assert yard.tick() == "FAILED"
    assert yard.run.reason_code == "interrupted"


def test_a_stop_ends_in_cancelled(yard: Yard) -> None:
    yard.start()
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    assert yard.tick() == "STOPPING"
    assert yard.voices[0].heard()["attempts"][yard.attempt.pk]["wanted"] == "stop"
    yard.say("ended", ranks=[rank(0, 20.0, exit_code=None, signal=15)])
    yard.tick()
    assert yard.tick() == "CANCELLED"
    assert not HeldSlot.objects.exists()


def test_a_stop_before_go_needs_nobody(yard: Yard) -> None:
    yard.tick()
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    assert yard.tick() == "CANCELLED"
    assert HeldSlot.objects.count() == 2
    for _ in range(4):
        yard.tick()  # the nodes answer, and have nothing of it
    assert not HeldSlot.objects.exists()


def test_what_we_ended_and_a_node_still_has_must_stop(yard: Yard) -> None:
    yard.tick()
    yard.say("ready")
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    assert yard.tick() == "CANCELLED"
    assert yard.voices[0].heard()["attempts"][yard.attempt.pk]["wanted"] == "stop"
    assert HeldSlot.objects.count() == 2


def test_the_queue_moves_up_when_slots_are_free(yard: Yard) -> None:
    actor = yard.cast.mate
    yard.start()
    document = {**yard.run.spec, "resources": {"nodes": 2, "processes_per_node": 2}}
    second = actions.submit_run(actor=actor, document=document)
    yard.say("running")
    yard.tick()
    second.refresh_from_db()
    assert (second.status, second.reason_code) == ("QUEUED", "slots-taken")
    assert second.reason_sentence == "Waiting for 2 more CPU slots on cluster local: 2 of 4 free."
    assert second.events.count() == 1  # why it waits is no event
    yard.say("ended", ranks=[rank(0, 10.0)])
    assert yard.tick() == "SUCCEEDED"
    second.refresh_from_db()
    assert second.status == "SCHEDULED"


def test_a_hint_moves_the_run_without_a_tick(yard: Yard) -> None:
    yard.tick()
    yard.say("ready")
    reconcile.reconcile_run(yard.run.pk, yard.now)
    assert yard.status == "STARTING"


def test_a_tick_twice_changes_nothing(yard: Yard) -> None:
    yard.start()
    events = Event.objects.count()
    assert reconcile.tick(yard.now) and reconcile.tick(yard.now)
    assert Event.objects.count() == events and Attempt.objects.count() == 1


def test_a_node_is_known_by_what_it_says(yard: Yard) -> None:
    yard.tick()
    node = Node.objects.get(name="node-a")
    assert node.seen_at == yard.now and node.health["cpu_percent"] == 3.0 and node.version == "0.1.0"


def test_a_tick_without_runs_is_cheap(yard: Yard, django_assert_max_num_queries: object) -> None:
    Run.objects.update(status=Status.CANCELLED)
    yard.tick()
    yard.later(0.1)
    with django_assert_max_num_queries(7):  # type: ignore[operator]
        reconcile.tick(yard.now)


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_an_ended_run_is_left_alone(yard: Yard, status: str) -> None:
    Run.objects.update(status=status, ended_at=timezone.now())
    assert yard.tick() == status
    assert not Attempt.objects.exists()


def test_a_run_that_waits_for_a_node_says_what_keeps_it(yard: Yard) -> None:
    assert yard.tick() == "SCHEDULED"
    yard.voices[1].troubles = {yard.attempt.pk: "the run's code cannot be fetched from http://127.0.0.1:9: refused"}
    assert yard.tick() == "SCHEDULED"
    assert yard.run.reason_code == "not-prepared"
    assert "node-b cannot prepare it yet: the run's code cannot be fetched" in yard.run.reason_sentence
    assert yard.voices[1].heard()["server"].startswith("http://")
    yard.voices[1].troubles = {}
    yard.tick()
    assert yard.run.reason_sentence == "Placed on node-a and node-b."


def test_a_script_that_is_restarted_elsewhere_says_so_before_it_starts(yard: Yard) -> None:
    Run.objects.update(spec=spec(task={"script": "train.py"}), num_nodes=1, slots_per_node=1, accelerator="auto")
    nodes = [voice.node for voice in yard.voices]
    before = make_attempt(yard.run, nodes[:1])
    Attempt.objects.filter(pk=before.pk).update(ended_at=yard.now)
    HeldSlot.objects.all().delete()
    Node.objects.filter(pk=nodes[0].pk).update(is_draining=True)
    assert yard.tick() == "SCHEDULED"
    assert "No attempt of it ran on node-b before" in yard.run.reason_sentence
    assert "TRAINYARD_CHECKPOINTS" in yard.run.reason_sentence


def test_a_node_that_is_started_with_another_number_of_slots_has_it(yard: Yard) -> None:
    def slots() -> int:
        yard.tick()
        return Node.objects.get(name="node-a").slots

    voice = yard.voices[0]
    yard.start()
    yard.say("running")
    assert slots() == 2
    voice.asked = {"slots": 5}
    assert slots() == 5
    actions.set_slots(actor=yard.cast.owner, node=Node.objects.get(name="node-a"), slots=3)
    assert slots() == 3, "it says the same as before: what an administrator chose since then stays"
    voice.asked = {}
    assert slots() == 3
    for too_many in (9999, 2**63):
        voice.asked = {"slots": too_many}
        assert slots() == 3, "no number of slots: it is refused by name, and what was stays"
    voice.asked = {"slots": MAX_SLOTS}
    assert slots() == MAX_SLOTS
    voice.asked = {}
    assert slots() == 2, "started with no number again, it has what its machine is made for"
    HeldSlot.objects.filter(node__name="node-a").update(index=6)
    voice.asked = {"slots": 1}
    assert slots() == 7, "a run holds the seventh"

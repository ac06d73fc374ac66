"""Machines that an engine brings: asked for once, joined by token, given back, whatever fails in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.causes.allocations import EndKind
from runs.engines.allocating import keep_offers
from runs.engines.allocations import secret_of
from runs.engines.cluster_settings.settings import Offer
from runs.engines.machine_system import JobState
from runs.models import Allocation, Attempt, Cluster, HeldSlot, JoinToken, Node, Placement, Run
from runs.presenting.runs import restarts_document
from runs.rights.access import Forbidden, visible_nodes
from runs.values.status import Phase
from tests.runs.engines.conftest import Scene

State = Allocation.State


def test_a_token_is_the_one_that_the_version_before_gave_out(settings: Any) -> None:
    """Machines that wait in a system's queue join with it, also after an upgrade."""
    settings.SECRET_KEY = "k"
    made = secret_of(Placement(pk=7, attempt_id="a1"))
    assert made == "join_d591fbcc62db265ac66b7812fb89fb1453bbe060688f11b5534071568cda24ff"


def test_a_run_is_placed_on_machines_that_do_not_exist_yet(scene: Scene) -> None:
    assert scene.tick() == "SCHEDULED"
    assert scene.allocation.state == State.REQUESTED
    assert not visible_nodes(scene.cast.owner).filter(cluster=scene.cluster).exists()
    assert scene.run.reason_sentence == "Placed on hpc-1 and hpc-2."
    scene.tick()
    assert scene.run.reason_sentence == "Asking Machines for 2 machines."


def test_the_reason_of_the_queue_stands_on_the_run(scene: Scene) -> None:
    scene.tick()
    scene.round()
    scene.round()
    assert scene.allocation.state == State.PENDING
    scene.tick()
    assert scene.run.reason_sentence == "Waiting for Machines on cluster hpc, job 1: it waits."
    assert "machines-requested" in scene.run.events.values_list("code", flat=True)


def test_nodes_join_serve_and_leave(scene: Scene) -> None:
    scene.start()
    names = list(visible_nodes(scene.cast.owner).filter(cluster=scene.cluster).values_list("name", flat=True))
    assert names == ["c1-hpc-1", "c2-hpc-2"]
    scene.say("ended", ranks=[{"rank": 0, "exit_code": 0, "signal": None, "started_at": 1.0, "ended_at": 2.0}])
    scene.engine.change("1", state=JobState.OVER)
    scene.tick()
    Attempt.objects.filter(ended_at=None).update(ended_at=timezone.now())
    scene.round()
    assert scene.allocation.state == State.OVER
    assert not visible_nodes(scene.cast.owner).filter(cluster=scene.cluster).exists()
    assert set(Node.objects.filter(placements__isnull=False).values_list("kind", flat=True)) == {"left"}
    assert not HeldSlot.objects.exists()
    Allocation.objects.update(over_at=timezone.now() - timedelta(hours=1))
    scene.round()
    assert not Node.objects.filter(kind="left", removed_at=None).exists()
    assert Node.objects.filter(kind="offered").count() == 4


def test_machines_that_are_given_back_are_offered_in_the_same_round(scene: Scene) -> None:
    Cluster.objects.filter(pk=scene.cluster.pk).update(settings={"machines": 2})
    scene.cluster.refresh_from_db()
    scene.start()
    assert not Node.objects.filter(kind="offered").exists()
    scene.say("ended", ranks=[{"rank": 0, "exit_code": 0, "signal": None, "started_at": 1.0, "ended_at": 2.0}])
    scene.tick()
    scene.engine.change("1", state=JobState.OVER)
    scene.round()
    assert scene.allocation.state == State.OVER
    assert Node.objects.filter(kind="offered").count() == 2


def test_a_token_is_for_one_machine_of_one_attempt_once(scene: Scene) -> None:
    scene.tick()
    scene.round()
    attempt = scene.run.attempts.get()
    secret = secret_of(attempt.placements.all()[0])
    for wrong in ("", "another"):
        with pytest.raises(Forbidden, match="bound to another attempt"):
            actions.join_node(secret=secret, name="c1", attempt=wrong)
    assert actions.join_node(secret=secret, name="c1", attempt=attempt.pk).name == "c1-hpc-1"
    with pytest.raises(Forbidden, match="already used"):
        actions.join_node(secret=secret, name="c9", attempt=attempt.pk)
    scene.round()
    with pytest.raises(Forbidden, match="already used"):  # a round does not open it again
        actions.join_node(secret=secret, name="c9", attempt=attempt.pk)
    (event,) = scene.run.events.filter(code="join-refused")
    assert event.sentence == "A machine that calls itself 'c9' came with the join token of c1-hpc-1 and was refused."


def test_a_token_ends_with_its_time_and_with_its_attempt(scene: Scene) -> None:
    scene.tick()
    scene.round()
    attempt = scene.run.attempts.get()
    first, second = (secret_of(one) for one in attempt.placements.all())
    JoinToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Forbidden, match="too old"):
        actions.join_node(secret=first, name="c1", attempt=attempt.pk)
    scene.round()  # it is still pending there: its machines may come
    actions.join_node(secret=first, name="c1", attempt=attempt.pk)
    Attempt.objects.update(ended_at=timezone.now())
    with pytest.raises(Forbidden):
        actions.join_node(secret=second, name="c2", attempt=attempt.pk)


def test_a_token_of_a_person_lets_in_no_node_for_an_attempt(scene: Scene) -> None:
    _, secret = actions.new_join_token(actor=scene.cast.owner, cluster=scene.cast.cluster)
    with pytest.raises(Forbidden, match="bound to another attempt"):
        actions.join_node(secret=secret, name="c1", attempt="abc")
    assert actions.join_node(secret=secret, name="c1").kind == Node.Kind.STAYS


def test_control_killed_between_submission_and_record_submits_once(scene: Scene) -> None:
    scene.tick()
    scene.engine.loses_answers = True
    scene.round()
    assert (scene.allocation.job, scene.allocation.problem) == ("", "The machines did not answer.")
    scene.round()
    assert (scene.allocation.job, scene.engine.num_submitted) == ("1", 1)


def test_control_killed_before_the_request_asks_all_the_same(scene: Scene) -> None:
    scene.tick()
    Allocation.objects.all().delete()
    scene.round()
    assert scene.engine.num_submitted == 1


def test_a_system_that_does_not_answer_changes_nothing_of_a_run(scene: Scene) -> None:
    scene.start()
    scene.engine.is_away = True
    scene.round()
    assert (scene.tick(), scene.allocation.state) == ("RUNNING", State.RUNNING)


def test_a_system_that_does_not_answer_stands_on_a_run_that_waits(scene: Scene) -> None:
    scene.tick()
    scene.engine.is_away = True
    scene.round()
    scene.tick()
    assert scene.run.reason_sentence == "The machines did not answer. It is asked again every few seconds."


def test_a_refusal_fails_the_run_and_frees_its_slots(scene: Scene) -> None:
    scene.tick()
    scene.engine.refusal = "There is no partition 'gone': change that."
    scene.round()
    for _ in range(8):
        scene.tick()
    assert (scene.status, scene.run.reason_code) == ("FAILED", "machines-refused")
    assert "no partition 'gone'" in scene.run.reason_sentence
    assert not HeldSlot.objects.exists()
    assert scene.run.attempts.get().known_cause.cause_class == "refused"  # type: ignore[union-attr]


def test_stopping_a_run_that_waits_takes_its_job_out_of_the_queue(scene: Scene) -> None:
    scene.tick()
    scene.round()
    actions.stop_run(actor=scene.cast.owner, run=scene.run)
    scene.tick()
    assert scene.status == "CANCELLED"
    scene.round()
    assert scene.engine.cancelled == ["1"]
    scene.round()
    assert scene.allocation.state == State.OVER
    assert not HeldSlot.objects.exists()
    assert not JoinToken.objects.filter(placement__isnull=False).exists()


@pytest.mark.parametrize(
    ("kind", "cause", "status"),
    [
        (EndKind.PREEMPTED, "preempted", "RECOVERING"),
        (EndKind.TIME_LIMIT, "preempted", "RECOVERING"),
        (EndKind.NODE_FAILED, "node-lost", "RECOVERING"),
        (EndKind.ENDED, "interrupted", "RECOVERING"),
        (EndKind.OUT_OF_MEMORY, "out-of-memory", "RECOVERING"),
        (EndKind.CANCELLED, "stopped", "CANCELLED"),
    ],
)
def test_what_follows_when_the_system_ends_the_job(scene: Scene, kind: EndKind, cause: str, status: str) -> None:
    scene.run.spec = {**scene.run.spec, "restarts": {"max": 3}}
    scene.run.save(update_fields=["spec"])
    scene.start()
    scene.engine.change("1", state=JobState.OVER, end=kind, end_sentence="It was taken away.")
    scene.round()
    first = scene.run.attempts.get()
    for _ in range(8):
        if first.ended_at is None:
            scene.tick()
            first.refresh_from_db()
    assert first.known_cause is not None
    assert (first.known_cause.cause_class, first.known_cause.sentence) == (cause, "It was taken away.")
    assert first.reason_code == f"machines-{kind}"
    assert scene.status in (status, "SCHEDULED" if status == "RECOVERING" else status)
    assert {one.phase for one in first.placements.all()} == {Phase.ENDED}
    restarts = restarts_document(scene.run, scene.now)
    assert restarts["total"] == (status == "RECOVERING")
    assert restarts["used"] == (status == "RECOVERING" and cause != "preempted"), "a machine that was lent is no fault"


@pytest.mark.parametrize("code", ["interrupted", "preempted", "node_lost"])
def test_nodes_that_were_shut_down_wait_for_the_word_of_their_system(scene: Scene, code: str) -> None:
    """`scancel` ends the processes first, and `kubectl delete job` asks pods to save as an eviction does: a restart
    would take the machines again that somebody has just taken."""
    scene.start()
    reason = {"code": code, "sentence": "Trainyard was stopped on c1.", "evidence": {}}
    scene.say("ended", reason=reason)
    for _ in range(8):
        assert scene.tick() == "RUNNING"
    scene.engine.change("1", state=JobState.OVER, end=EndKind.CANCELLED, end_sentence="It was cancelled.")
    scene.round()
    for _ in range(8):
        scene.tick()
    assert (scene.status, scene.run.reason_sentence) == ("CANCELLED", "It was cancelled.")


@pytest.mark.parametrize(("code", "seconds"), [("interrupted", 90), ("node_lost", 12)])
def test_nodes_that_were_shut_down_do_not_wait_for_ever(scene: Scene, code: str, seconds: int) -> None:
    scene.start()
    scene.say("ended", reason={"code": code, "sentence": "Trainyard was stopped.", "evidence": {}})
    scene.tick()
    scene.now += timedelta(seconds=seconds)
    scene.tick()
    scene.tick()
    assert scene.run.attempts.get(number=1).ended_at is not None


def test_a_job_that_ends_before_its_nodes_joined_says_what_to_do(scene: Scene) -> None:
    scene.tick()
    scene.round()
    scene.engine.change("1", state=JobState.OVER, end=EndKind.ENDED, end_sentence="Job 1 ended with exit code 127.")
    scene.round()
    for _ in range(8):
        scene.tick()
    assert (scene.status, scene.run.reason_code) == ("FAILED", "machines-never-joined")
    assert "before its nodes had joined. `trainyard doctor --cluster hpc`" in scene.run.reason_sentence


def test_nodes_that_never_join_do_not_keep_their_machines(scene: Scene) -> None:
    scene.tick()
    scene.round()
    scene.engine.change("1", state=JobState.RUNNING, started_at=timezone.now().timestamp() - 400)
    scene.round()
    assert scene.engine.cancelled == ["1"]
    assert scene.allocation.known_ending is not None
    assert "not all of its nodes have joined" in scene.allocation.known_ending.sentence


def test_a_second_job_of_an_attempt_and_one_of_a_deleted_run_are_cancelled(scene: Scene) -> None:
    scene.tick()
    scene.round()
    request = scene.engine.table["1"]
    scene.engine.table["7"] = type(request)("7", request.attempt, JobState.PENDING)
    scene.engine.table["8"] = type(request)("8", "unknown", JobState.RUNNING)
    scene.round()
    assert sorted(scene.engine.cancelled) == ["7", "8"]


def test_a_job_that_the_system_forgot_is_over(scene: Scene) -> None:
    scene.start()
    Allocation.objects.update(submitted_at=timezone.now() - timedelta(minutes=1))
    del scene.engine.table["1"]
    scene.round()
    assert scene.allocation.known_ending is not None
    assert scene.allocation.known_ending.kind == EndKind.FORGOTTEN
    assert not HeldSlot.objects.exists()


def test_a_run_that_waits_for_machines_says_that_their_system_is_away(
    scene: Scene, make_run: Callable[..., Run]
) -> None:
    """Its slots are not free while nobody knows what became of the machines."""
    scene.cluster.settings = {"machines": 2}
    scene.cluster.save(update_fields=["settings"])
    scene.start()
    second = make_run(spec=scene.run.spec, cluster=scene.cluster)
    scene.tick()
    second.refresh_from_db()
    assert second.reason_sentence == "Waiting for 2 more CPU slots on cluster hpc: 0 of 4 free."
    scene.engine.is_away = True
    scene.round()
    scene.tick()
    second.refresh_from_db()
    assert second.reason_sentence.endswith("0 of 4 free. The machines did not answer.")


def test_more_runs_than_machines_wait_here(scene: Scene) -> None:
    scene.cluster.settings = {"machines": 1}
    scene.cluster.save(update_fields=["settings"])
    scene.round()
    scene.tick()
    assert scene.status == "QUEUED"
    assert "cluster hpc has 1 node" in scene.run.reason_sentence


def test_a_job_that_was_begun_is_asked_for_again_and_not_cancelled(scene: Scene) -> None:
    """The system has some of its machines: what is missing is completed by submitting once more."""
    scene.tick()
    scene.engine.loses_answers = True
    scene.round()
    scene.engine.loses_answers = False
    scene.engine.change("1", is_incomplete=True)
    scene.engine.is_away_for_submissions = True
    scene.round()
    assert (scene.allocation.job, scene.engine.cancelled) == ("1", [])
    assert scene.allocation.problem == "The machines did not answer."
    scene.engine.is_away_for_submissions = False
    scene.round()
    assert (scene.engine.num_completed, scene.engine.num_submitted) == (1, 1)


def test_what_a_system_keeps_of_a_job_is_removed_once_its_end_was_read(scene: Scene) -> None:
    scene.tick()
    scene.round()
    scene.engine.change("1", state=JobState.OVER, end=EndKind.ENDED, end_sentence="It ended.", is_kept=True)
    scene.round()
    assert (scene.allocation.state, scene.engine.cancelled) == (State.OVER, [])
    scene.round()
    assert scene.engine.cancelled == ["1"]


def test_machines_of_several_kinds_are_offered_and_kept_apart(scene: Scene) -> None:
    cluster = scene.cluster
    Node.objects.filter(cluster=cluster).delete()

    def slots() -> list[int]:
        return sorted(Node.objects.registered().filter(cluster=cluster).values_list("slots", flat=True))

    keep_offers(cluster, [Offer(2, 1), Offer(1, 4, "a100")])
    assert slots() == [1, 1, 4]
    large = Node.objects.get(cluster=cluster, slots=4)
    assert (large.accelerator, large.machine.gpus[0].name) == ("gpu", "a100")
    large.kind = Node.Kind.BROUGHT
    large.save(update_fields=["kind"])
    keep_offers(cluster, [Offer(2, 1), Offer(1, 4, "a100")])
    assert slots() == [1, 1, 4], "the one in use is one of them"
    keep_offers(cluster, [Offer(1, 2), Offer(1, 4, "a100")])
    assert slots() == [2, 4]

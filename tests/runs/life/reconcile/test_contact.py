"""Silence is never proof, old fences are refused, and a node's clock decides nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runs import actions
from runs.life import reconcile
from runs.models import Attempt, HeldSlot
from runs.serving.transport import redis
from runs.values.status import Phase
from tests.cast import make_node
from tests.runs.life.reconcile.conftest import Yard
from tests.runs.life.reconcile.test_recovering import restarts
from tests.voices import Voice, rank
from trainyard.contract import seals


def lose(yard: Yard) -> None:
    """Let node-b be silent until somebody notices."""
    for _ in range(6):
        yard.say("running", 0)
        yard.tick(1)


def test_a_run_whose_node_is_silent_is_recovering_and_names_it(yard: Yard) -> None:
    yard.start()
    lose(yard)
    assert yard.status == "RECOVERING"
    assert yard.run.reason_sentence == "Node node-b is out of contact. Training may still go on there."
    assert yard.attempt.contact_lost_at is not None


def test_contact_that_returns_brings_the_run_back(yard: Yard) -> None:
    yard.start()
    lose(yard)
    yard.say("running")
    assert yard.tick() == "RUNNING"
    assert yard.attempt.contact_lost_at is None


def test_after_the_lease_the_run_is_lost_and_contact_still_brings_it_back(yard: Yard) -> None:
    yard.start()
    Attempt.objects.update(lease_s=3)
    lose(yard)
    for _ in range(5):
        yard.say("running", 0)
        yard.tick(1)
    assert yard.status == "LOST"
    yard.say("running")
    assert yard.tick() == "RUNNING"


def test_a_lost_run_may_be_given_up_and_a_node_that_comes_back_must_stop(yard: Yard) -> None:
    yard.start()
    lose(yard)
    actions.give_up_run(actor=yard.cast.mate, run=yard.run)
    assert yard.status == "CANCELLED"
    yard.say("running")
    yard.tick()
    assert yard.voices[1].heard()["attempts"][yard.attempt.pk]["wanted"] == "stop"
    assert HeldSlot.objects.count() == 2  # not free before its node says so
    yard.say("ended")
    assert yard.tick() == "CANCELLED"
    assert not HeldSlot.objects.exists()


def give_up(yard: Yard) -> None:
    """Lose both nodes for longer than the lease, and let a person give the run up."""
    yard.start()
    Attempt.objects.update(lease_s=3)
    for _ in range(12):
        yard.tick(0, 1)
    assert yard.status == "LOST"
    actions.give_up_run(actor=yard.cast.mate, run=yard.run)
    yard.run.refresh_from_db()


def leased(yard: Yard, **restarts: Any) -> None:
    """A run that may be started again, with a lease of 10 s of which its supervisors know."""
    yard.run.refresh_from_db()
    type(yard.run).objects.update(spec={**yard.run.spec, "restarts": {"max": 3, "lease": "10s", **restarts}})
    yard.run.refresh_from_db()
    yard.start()
    yard.say("running", is_leased=True)
    assert yard.tick() == "RUNNING"


def test_nodes_that_are_all_silent_for_longer_than_the_lease_are_replaced(yard: Yard) -> None:
    leased(yard)
    assert yard.voices[0].heard()["attempts"][yard.attempt.pk]["may_replace"] is True
    assert yard.attempt.lease_s == 10
    yard.voices += [Voice(make_node(yard.cast.cluster, name)) for name in ("node-c", "node-d")]
    for _ in range(9):
        yard.tick(0, 1)
    assert (yard.status, yard.run.attempts.count()) == ("RECOVERING", 1), "their ranks may still train"
    for _ in range(3):
        yard.tick(0, 1)
    assert (yard.status, yard.attempt.number) == ("SCHEDULED", 2)
    assert [one.node.name for one in yard.placements] == ["node-c", "node-d"]
    first = yard.run.attempts.first()
    assert first is not None and first.cause is not None and first.cause["class"] == "node-lost"
    assert first.reason_sentence == "Node node-a has been out of contact for more than 10 s: it counts as lost."
    assert HeldSlot.objects.filter(placement__attempt=first).count() == 2, "the nodes have confirmed nothing"


def test_nodes_that_come_back_after_their_lease_end_what_they_have_and_take_the_run_again(yard: Yard) -> None:
    leased(yard)
    for _ in range(12):
        yard.tick(0, 1)
    assert yard.status == "RECOVERING", "there is no other node"
    assert yard.run.reason_sentence.startswith("Restart 1 of 3: waiting for")
    first = yard.placements
    for placement in first:
        yard.voices[placement.node_rank].report(placement, "running", yard.now, is_leased=True)
    assert yard.tick() == "RECOVERING", "they have not ended after all"
    assert yard.run.reason_sentence.startswith("Restart 1 of 3: waiting for node-a and node-b to confirm")
    assert {voice.heard()["attempts"][first[0].attempt_id]["wanted"] for voice in yard.voices} == {"stop"}
    for placement in first:
        yard.voices[placement.node_rank].report(placement, "ended", yard.now, reason={"code": "lease_expired"})
    assert yard.tick() == "SCHEDULED" and yard.attempt.number == 2


def test_supervisors_that_do_not_know_of_the_lease_are_not_replaced(yard: Yard) -> None:
    leased(yard)
    yard.say("running", is_leased=False)
    yard.tick()
    for _ in range(20):
        yard.tick(0, 1)
    assert (yard.status, yard.run.attempts.count()) == ("LOST", 1)


def test_a_run_that_is_not_to_be_restarted_after_a_lost_node_is_lost(yard: Yard) -> None:
    leased(yard, on={"node-lost": "stop"})
    assert yard.voices[0].heard()["attempts"][yard.attempt.pk]["may_replace"] is False


def test_the_lease_counts_anew_after_control_was_away(yard: Yard) -> None:
    leased(yard)
    for _ in range(8):
        yard.tick(0, 1)
    yard.later(600)
    for _ in range(9):
        yard.tick(0, 1)
    assert (yard.status, yard.run.attempts.count()) == ("RECOVERING", 1)
    for _ in range(3):
        yard.tick(0, 1)
    assert yard.run.attempts.first().ended_at is not None  # type: ignore[union-attr]


def test_a_stop_ends_with_the_lease_of_nodes_that_are_out_of_contact(yard: Yard) -> None:
    leased(yard)
    for _ in range(6):
        yard.tick(0, 1)
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    for _ in range(6):
        yard.tick(0, 1)
    assert yard.status == "CANCELLED"


def test_a_run_that_outlives_its_workers_goes_on_without_a_node_whose_lease_is_over(yard: Yard) -> None:
    document = {**yard.run.spec, "parallel": {"synchronization": {"kind": "parameter-server"}}}
    type(yard.run).objects.update(spec=document)
    leased(yard)
    for _ in range(13):
        yard.say("running", 0, is_leased=True)
        yard.tick(1)
    assert (yard.status, yard.run.attempts.count()) == ("RUNNING", 1), yard.run.reason_sentence
    assert yard.run.reason_sentence == ("Without node-b, out of contact for too long, training goes on on node-a.")


def test_the_lost_node_of_rank_0_holds_up_a_restart_for_its_lease_only(yard: Yard) -> None:
    document = {**yard.run.spec, "parallel": {"synchronization": {"kind": "parameter-server"}}}
    type(yard.run).objects.update(spec=document)
    leased(yard)
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    yard.say("ended", 1, ranks=[rank(1, 10.0, exit_code=None, signal=9)])
    for _ in range(14):
        yard.tick(0)
    assert (yard.status, yard.attempt.number) == ("SCHEDULED", 2), yard.run.reason_sentence
    assert [one.node.name for one in yard.placements] == ["node-b", "node-c"]


def test_ranks_go_on_without_contact_since_nobody_places_a_second_attempt(yard: Yard) -> None:
    yard.start()
    entry = yard.voices[0].heard()["attempts"][yard.attempt.pk]
    assert entry["may_replace"] is False
    for _ in range(3):
        yard.later(3600)
        yard.tick(0, 1)
    assert yard.run.attempts.count() == 1
    yard.say("running")
    assert yard.tick() == "RUNNING"


def test_a_run_that_was_given_up_is_restarted_only_when_nothing_of_it_can_run(yard: Yard) -> None:
    give_up(yard)
    with pytest.raises(actions.Refused, match="Nodes node-a and node-b have not confirmed"):
        actions.restart_run(actor=yard.cast.mate, run=yard.run)
    yard.say("running")  # contact returns: they hear that they must end
    yard.tick()
    assert {voice.heard()["attempts"][yard.attempt.pk]["wanted"] for voice in yard.voices} == {"stop"}
    with pytest.raises(actions.Refused, match="have not confirmed"):
        actions.restart_run(actor=yard.cast.mate, run=yard.run)
    yard.say("ended", 0)
    yard.tick()
    # The others cannot step without it; their messages and checkpoints are fenced.
    assert actions.restart_run(actor=yard.cast.mate, run=yard.run).status == "QUEUED"


def test_a_run_that_goes_on_without_some_of_its_ranks_is_restarted_when_all_are_gone(yard: Yard) -> None:
    document = {**yard.run.spec, "parallel": {"synchronization": {"kind": "parameter-server"}}}
    type(yard.run).objects.update(spec=document)
    give_up(yard)
    yard.say("ended", 0)
    yard.tick()
    with pytest.raises(actions.Refused, match="Node node-b has not confirmed"):
        actions.restart_run(actor=yard.cast.mate, run=yard.run)
    yard.say("ended", 1)
    yard.tick()
    assert actions.restart_run(actor=yard.cast.mate, run=yard.run).status == "QUEUED"


def test_whoever_removes_the_nodes_says_that_they_are_gone(yard: Yard) -> None:
    give_up(yard)
    for voice in yard.voices:
        actions.remove_node(actor=yard.cast.owner, node=voice.node)
    assert actions.restart_run(actor=yard.cast.mate, run=yard.run).status == "QUEUED"


def test_an_attempt_that_never_started_keeps_nobody_from_a_restart(yard: Yard) -> None:
    yard.tick()
    yard.say("ready")
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    assert yard.tick() == "CANCELLED" and HeldSlot.objects.exists()
    assert actions.restart_run(actor=yard.cast.mate, run=yard.run).status == "QUEUED"


def test_a_run_that_ended_while_it_was_out_of_contact_is_settled_by_the_report(yard: Yard) -> None:
    yard.start()
    lose(yard)
    yard.say("ended", ranks=[rank(0, 10.0)])
    assert yard.tick() == "SUCCEEDED"


def test_a_node_that_falls_silent_before_go_costs_nothing_but_another_place(yard: Yard) -> None:
    yard.tick()
    first = yard.attempt
    for _ in range(6):
        yard.tick(1)
    assert yard.status == "QUEUED"
    first.refresh_from_db()
    assert first.ended_at is not None and first.reason_code == "contact-lost"


def test_a_report_with_an_old_fence_is_refused(yard: Yard) -> None:
    yard.start()
    placement = yard.placements[0]
    yard.voices[0].report(placement, "ended", yard.now, fence=placement.attempt.fence - 1)
    assert yard.tick() == "RUNNING"


def test_a_report_with_another_nodes_key_is_refused(yard: Yard) -> None:
    yard.start()
    placement = yard.placements[0]
    scope = seals.report_scope(placement.node_id, yard.run.pk, placement.attempt.fence)
    forged = seals.seal(yard.voices[1].node.key, scope, {"at": 1, "attempt": yard.attempt.pk, "phase": "ended"})
    redis().set(seals.report_key(placement.node_id, yard.attempt.pk), forged)
    assert yard.tick() == "RUNNING"


def test_an_older_report_that_is_replayed_takes_nothing_back(yard: Yard) -> None:
    yard.start()
    yard.say("ready")
    assert yard.tick() == "RUNNING"
    assert {placement.phase for placement in yard.placements} == {Phase.RUNNING}


def test_a_nodes_clock_may_be_an_hour_off(yard: Yard) -> None:
    yard.start()
    for number in range(8):
        at = yard.now + timedelta(hours=1 if number < 4 else -1)
        for placement in yard.placements:
            yard.voices[placement.node_rank].report(placement, "running", at)
        yard.later(1)
        # The documents differ from the last ones: that is what counts.
        yard.tick()
    assert yard.status == "RUNNING"


def test_control_that_was_away_does_not_take_its_absence_for_silence(yard: Yard) -> None:
    yard.start()
    yard.later(600)
    assert yard.tick() == "RUNNING"
    yard.say("running")
    assert yard.tick() == "RUNNING"


@pytest.mark.parametrize("way", ["by a hint", "by a tick"])
def test_nodes_that_are_being_stopped_get_no_next_attempt_until_they_are_started_again(yard: Yard, way: str) -> None:
    restarts(yard)
    yard.start()
    reason = {"code": "interrupted", "sentence": "Trainyard was stopped.", "evidence": {}}
    for voice in yard.voices:
        voice.is_leaving = True
    yard.say("ended", reason=reason, ranks=[rank(0, 20.0, exit_code=None, signal=15)])
    if way == "by a hint":
        reconcile.reconcile_run(yard.run.pk, yard.now)
    for _ in range(3):
        assert (yard.tick(), yard.attempt.number) == ("RECOVERING", 1)
    for voice in yard.voices:
        voice.is_leaving = False
    assert (yard.tick(), yard.attempt.number) == ("SCHEDULED", 2)


def test_a_node_that_is_being_stopped_trains_on_while_its_ranks_save(yard: Yard) -> None:
    yard.start()
    for voice in yard.voices:
        voice.is_leaving = True
    for _ in range(8):
        yard.say("running")
        assert yard.tick() == "RUNNING"


def test_a_control_that_was_away_does_not_take_its_own_absence_for_contact(yard: Yard) -> None:
    yard.start()
    lose(yard)
    assert yard.status == "RECOVERING"
    for _ in range(3):
        yard.later(8)  # nobody listens for longer than control may pause
        for _ in range(2):
            yard.say("running", 0)
            assert yard.tick(1) == "RECOVERING"
    assert yard.attempt.contact_lost_at is not None
    codes = list(yard.run.events.values_list("code", flat=True))
    assert codes.count("contact-lost") == 1 and "contact-back" not in codes


def test_a_stopped_supervisor_is_named_and_its_node_is_not_out_of_contact(yard: Yard) -> None:
    yard.start()
    yard.say("running")
    yard.voices[1].listed[yard.attempt.pk]["is_stopped"] = True
    yard.voices[1].up(yard.now)
    yard.say("running", 0)
    assert yard.tick() == "RECOVERING"
    assert yard.run.reason_sentence == (
        "The supervisor of this run on node-b is stopped (SIGSTOP). Its ranks may still train, and nothing arrives of "
        "it."
    )
    for _ in range(8):
        yard.say("running", 0)
        assert yard.tick() == "RECOVERING"
    assert not yard.run.events.filter(code="contact-lost").exists()
    felt = {"type": "RuntimeError", "message": "[gloo/transport/tcp/pair.cc:547] Connection closed by peer"}
    yard.say("ended", 0, ranks=[rank(0, yard.now.timestamp(), exit_code=1, error=felt)])
    yard.tick()  # what the neighbour felt comes before what its node reports
    assert yard.attempt.ended_at is None
    reason = {"code": "supervisor_stopped", "sentence": "The supervisor on node-b was stopped (SIGSTOP) for 15 s."}
    yard.say("ended", 1, reason=reason)
    for _ in range(7):
        yard.tick()
    assert yard.run.attempts.get(number=1).known_cause.sentence.startswith("The supervisor on node-b was stopped")
    assert yard.run.attempts.get(number=1).known_cause.cause_class == "process-lost"


def test_a_supervisor_that_goes_on_again_brings_the_run_back(yard: Yard) -> None:
    yard.start()
    yard.voices[1].listed[yard.attempt.pk]["is_stopped"] = True
    yard.tick()
    assert yard.status == "RECOVERING"
    yard.say("running")
    assert yard.tick() == "RUNNING"

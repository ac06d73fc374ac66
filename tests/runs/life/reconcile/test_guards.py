"""One bad thing does not hold up the rest; success needs proof; nothing is kept for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from django.utils import timezone

from runs import actions
from runs.life import reconcile
from runs.life.reconcile.clock import tick_clock
from runs.life.reconcile.listening import MAX_RECORDS, RECEIVED_KEY
from runs.models import Cluster, HeldSlot, Run
from runs.recovery.fencing import TICK_KEY
from runs.serving.clock import Clock
from runs.serving.transport import redis
from tests.cast import make_node, make_run
from tests.runs.life.reconcile.conftest import Yard
from tests.servers import Valkey
from tests.voices import rank
from trainyard.contract import seals

STOPPED = {"code": "stopped", "sentence": "The run was asked to stop.", "evidence": {}}


def test_a_report_that_makes_no_sense_does_not_hold_up_other_runs(yard: Yard) -> None:
    other = actions.submit_run(actor=yard.cast.mate, document=yard.run.spec)
    yard.tick()
    yard.say("ended", ranks=[7])
    for placement in other.attempts.get().placements.select_related("node", "attempt"):
        yard.voices[placement.node_rank].report(placement, "ready", yard.now)
    yard.tick()
    other.refresh_from_db()
    assert other.status == "STARTING"
    assert yard.voices[0].heard()["attempts"][other.attempts.get().pk]["go"]


def test_a_queue_that_cannot_be_read_does_not_hold_up_other_clusters(yard: Yard) -> None:
    broken = Cluster.objects.create(name="broken")
    broken.projects.add(yard.cast.project)
    make_node(broken)
    Run.objects.create(project=yard.cast.project, cluster=broken, name="odd", spec={}, created_by=yard.cast.mate)
    for name in ("one", "two"):  # whichever order the clusters are looked at in
        cluster = Cluster.objects.create(name=name)
        cluster.projects.add(yard.cast.project)
        make_node(cluster)
        make_run(yard.cast, cluster=cluster, spec={**yard.run.spec, "resources": {"nodes": 1}})
    assert yard.tick() == "SCHEDULED"
    assert Run.objects.filter(status="SCHEDULED").count() == 3
    assert yard.voices[0].heard()["attempts"]


def test_ranks_that_were_stopped_unasked_are_no_success(yard: Yard) -> None:
    yard.start()
    yard.say("ended", reason=STOPPED, ranks=[rank(0, 10.0, exit_code=None, signal=15)])
    yard.tick()
    assert yard.tick() == "FAILED"
    assert yard.run.reason_code == "stopped-unasked"


def test_an_end_without_ranks_is_no_success(yard: Yard) -> None:
    yard.start()
    yard.say("ended", 0, ranks=[rank(0, 10.0)])
    yard.say("ended", 1)
    yard.tick()
    assert yard.tick() == "FAILED"
    assert yard.run.reason_sentence == "Node node-b reported the end of 0 of its 1 ranks."


def test_a_start_that_was_called_off_on_its_nodes_is_placed_again(yard: Yard) -> None:
    yard.tick()
    first = yard.attempt
    yard.say("ready", 1)
    yard.say("ended", 0, reason=STOPPED)
    yard.tick()
    yard.say("ended", 1, reason=STOPPED)
    for _ in range(3):
        yard.tick()
    assert yard.status == "SCHEDULED" and yard.attempt.fence > first.fence


def test_what_was_heard_of_ended_attempts_is_forgotten(yard: Yard) -> None:
    yard.start()
    yard.tick()
    ended = {seals.report_key(yard.voices[0].node.pk, f"old-{number}"): "1|1" for number in range(MAX_RECORDS)}
    redis().hset(RECEIVED_KEY, mapping=cast("dict[Any, Any]", ended))
    yard.tick()
    heard = {key.decode() for key in cast("list[bytes]", redis().hkeys(RECEIVED_KEY))}
    live = {seals.report_key(one.node_id, one.attempt_id) for one in yard.placements}
    assert heard == {seals.up_key(voice.node.pk) for voice in yard.voices} | live


def test_a_node_is_told_of_ended_attempts_until_it_is_done_with_them(yard: Yard) -> None:
    yard.start()
    yard.say("ended", ranks=[rank(0, 10.0)])
    yard.tick()
    yard.tick()
    attempt, voice = yard.attempt.pk, yard.voices[0]
    assert voice.heard()["attempts"][attempt]["wanted"] == "stop"  # its watermarks are in there
    voice.listed[attempt]["is_done"] = True
    yard.tick()
    assert attempt not in voice.heard()["attempts"]


def test_a_run_is_not_deleted_while_a_node_may_still_train_it(yard: Yard) -> None:
    yard.start()
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    for _ in range(7):
        yard.tick()
    actions.give_up_run(actor=yard.cast.mate, run=yard.run)
    yard.run.refresh_from_db()
    with pytest.raises(actions.Refused, match="has not confirmed"):
        actions.delete_run(actor=yard.cast.mate, run=yard.run)
    assert HeldSlot.objects.count() == 2
    yard.say("ended")
    yard.tick()
    attempt = yard.placements[0].attempt_id
    assert not yard.voices[0].heard()["attempts"][attempt]["is_gone"]
    actions.delete_run(actor=yard.cast.mate, run=yard.run)
    yard.later(1)
    for voice in yard.voices:
        voice.up(yard.now)
    reconcile.tick(yard.now)
    # Its supervisors need not wait until all that they wrote has arrived: it goes nowhere any more.
    assert yard.voices[0].heard()["attempts"][attempt]["is_gone"]


@pytest.fixture
def clock() -> Iterator[Clock]:
    one = tick_clock()
    one.start()
    yield one
    one.stop()


def ticked_after(moment: float) -> bool:
    at: Any = redis().get(TICK_KEY)
    return at is not None and float(at) > moment


def test_the_clock_ticks_without_celery_and_after_trouble(transactional_db: None, valkey: Valkey, clock: Clock) -> None:
    until(lambda: ticked_after(0))
    valkey.kill()
    time.sleep(1.2)
    valkey.start()
    now = timezone.now().timestamp()
    until(lambda: ticked_after(now))


def until(is_so: Any) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)

"""Elastic runs: they start with what is free, grow onto nodes that join, leave drained ones, and go on without lost
ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from runs import actions
from runs.models import Attempt, Cluster, Event, Node, Project, Run
from runs.models.runs import size_of
from runs.records.metrics.models import Telemetry
from runs.values.refused import Refused
from tests.cast import make_node, spec
from tests.checkpoints import saved, tell
from tests.runs.life.reconcile.conftest import Yard
from tests.runs.life.reconcile.test_pausing import ended
from tests.runs.life.reconcile.test_recovering import sentences
from tests.runs.life.reconcile.test_stopping import wanted
from tests.voices import Voice, rank


def elastic(yard: Yard, least: int = 1, most: int = 3, **changes: Any) -> None:
    resources = {"nodes": {"min": least, "max": most}, "processes_per_node": 1, "accelerator": "auto"}
    kept = {"every_steps": 10, "keep": 3}
    document = spec(resources=resources, restarts={"max": 3}, train={"batch_size": 12}, checkpoint=kept, **changes)
    Run.objects.filter(pk=yard.run.pk).update(spec=document, **size_of(document))
    yard.run.refresh_from_db()
    Node.objects.update(slots=1)


def steps(yard: Yard, step: int) -> None:
    """The attempt has taken steps."""
    Telemetry.objects.update_or_create(
        run_id=yard.run.pk, defaults={"attempt": yard.attempt.fence, "step": step, "step_at": yard.now.timestamp()}
    )


def submitted(yard: Yard, document: dict[str, Any]) -> Run:
    """Another run waits."""
    own = {"project": yard.cast.project, "cluster": yard.cast.cluster, "created_by": yard.cast.mate}
    return Run.make(name="other", spec=document, **own)


def say_saved(yard: Yard, step: int) -> None:
    """All ranks of the attempt have saved and ended."""
    for placement in yard.placements:
        own = {"saved": {"step": step, "saved": True}} if placement.node_rank == 0 else {}
        voice(yard, placement.node.name).report(placement, "ended", yard.now, **ended(placement.node_rank, **own))


def voice(yard: Yard, name: str) -> Voice:
    return next(one for one in yard.voices if one.node.name == name)


def nodes(yard: Yard) -> list[str]:
    return sorted(one.node.name for one in yard.placements)


def say(yard: Yard, phase: str) -> None:
    for placement in yard.placements:
        voice(yard, placement.node.name).report(placement, phase, yard.now)


def trains(yard: Yard, seconds: int) -> None:
    """Its nodes say for so long that the ranks run, and it stays as it is."""
    for _ in range(seconds):
        say(yard, "running")
        assert yard.tick() == "RUNNING"


def start_again(yard: Yard) -> None:
    for phase, status in (("ready", "STARTING"), ("running", "RUNNING")):
        say(yard, phase)
        assert yard.tick() == status


def until(yard: Yard, status: str, ticks: int = 10) -> None:
    for _ in range(ticks):
        if yard.run.status == "RUNNING":
            say(yard, "running")
        if yard.tick() == status:
            return
    raise AssertionError(f"it is {yard.status}: {yard.run.reason_sentence}")


def test_it_starts_with_as_many_nodes_as_there_are(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    assert nodes(yard) == ["node-a", "node-b"] and yard.attempt.world_size == 2
    assert sentences(yard.run, "placed") == [
        "Placed on node-a and node-b. It trains on 2 nodes; its spec asks for 1 to 3."
    ]


def test_it_grows_onto_a_node_that_joins_once_that_has_been_free_for_a_while(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    steps(yard, 10)
    assert yard.tick() == "RUNNING"
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c", slots=1)))
    assert yard.tick() == "RUNNING" and yard.tick() == "RUNNING", "it may be gone again in a moment"
    until(yard, "RESIZING", 4)
    assert sentences(yard.run, "resizing")[0].startswith(
        "Node node-c is free: the run grows from 2 to 3 nodes. "
        "It is expected to have 1.38 times the samples/s, if nine tenths of a step divide among nodes. Its ranks "
    )
    assert wanted(yard)["wanted"] == "stop"
    say_saved(yard, 14)
    until(yard, "SCHEDULED", 3)
    first = yard.run.attempts.get(number=1)
    assert (first.reason_code, first.known_cause and first.known_cause.cause_class) == ("resized", "resized")
    assert first.reason_sentence == "Ended for the other number of nodes: saved step 14 and ended in 2.5 s."
    assert nodes(yard) == ["node-a", "node-b", "node-c"] and yard.attempt.world_size == 3
    assert yard.run.wanted == "run" and yard.run.recover_at is None
    start_again(yard)
    assert yard.run.restarts.total == 0


def test_it_does_not_grow_before_its_first_step_nor_onto_what_somebody_waits_for(yard: Yard) -> None:
    elastic(yard, 2, 3)
    yard.start()
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c", slots=1)))
    trains(yard, 6)
    steps(yard, 3)
    large = submitted(yard, spec(resources={"nodes": 2, "processes_per_node": 1, "accelerator": "auto"}))
    trains(yard, 6)
    actions.stop_run(actor=yard.cast.mate, run=large)
    until(yard, "RESIZING", 5)


def test_a_growth_that_was_in_vain_is_not_tried_again_at_once(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    steps(yard, 10)
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c", slots=1)))
    until(yard, "RESIZING", 7)
    Node.objects.filter(name="node-c").update(is_draining=True)
    say_saved(yard, 14)
    until(yard, "SCHEDULED", 3)
    assert nodes(yard) == ["node-a", "node-b"]
    Node.objects.filter(name="node-c").update(is_draining=False)
    start_again(yard)
    steps(yard, 20)
    trains(yard, 8)


def test_it_leaves_a_drained_node_at_once(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    steps(yard, 10)
    Node.objects.filter(name="node-b").update(is_draining=True)
    assert yard.tick() == "RESIZING"
    assert sentences(yard.run, "resizing")[0].startswith("Node node-b is drained: the run shrinks from 2 to 1 node.")
    say_saved(yard, 11)
    until(yard, "SCHEDULED", 3)
    assert nodes(yard) == ["node-a"]


def test_a_run_that_could_not_go_on_elsewhere_stays_on_a_drained_node(yard: Yard) -> None:
    elastic(yard, 2, 3)
    yard.start()
    steps(yard, 10)
    Node.objects.filter(name="node-b").update(is_draining=True)
    trains(yard, 3)


def test_it_goes_on_at_once_without_a_node_that_is_lost(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    tell(yard.run, saved(100))
    for _ in range(8):
        status = yard.tick(1)
        if yard.attempt.settling_at is not None:
            break
    assert status in ("RUNNING", "RECOVERING"), "its ranks are asked to end: they cannot step without the others"
    placement = next(one for one in yard.placements if one.node.name == "node-a")
    yard.voices[0].report(placement, "ended", yard.now, **ended(0))
    for _ in range(3):
        status = yard.tick(1)
    assert status == "SCHEDULED" and nodes(yard) == ["node-a"] and yard.attempt.number == 2
    first = yard.run.attempts.get(number=1)
    assert first.known_cause is not None and first.known_cause.cause_class == "node-lost"
    assert yard.run.restarts.number == 1


def test_a_run_of_one_size_waits_for_its_node(yard: Yard) -> None:
    yard.start()
    for _ in range(12):
        status = yard.tick(1)
    assert status == "RECOVERING" and yard.attempt.settling_at is None


def test_a_rank_that_is_killed_while_it_saves_has_the_run_go_on_as_its_policy_says(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    steps(yard, 10)
    Node.objects.filter(name="node-b").update(is_draining=True)
    assert yard.tick() == "RESIZING"
    for placement in yard.placements:
        one = rank(placement.node_rank, 9.0, **({"exit_code": None, "signal": 9} if placement.node_rank else {}))
        voice(yard, placement.node.name).report(placement, "ended", yard.now, ranks=[one])
    until(yard, "SCHEDULED", 3)
    assert nodes(yard) == ["node-a"] and yard.run.wanted == "run"
    assert "killed by SIGKILL" in sentences(yard.run, "restarting")[0]


@pytest.mark.parametrize(("verb", "status"), [("pause", "PAUSED"), ("stop", "CANCELLED")])
def test_a_person_may_pause_or_stop_it_while_it_is_resized(yard: Yard, verb: str, status: str) -> None:
    elastic(yard)
    yard.start()
    steps(yard, 10)
    Node.objects.filter(name="node-b").update(is_draining=True)
    assert yard.tick() == "RESIZING"
    getattr(actions, f"{verb}_run")(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
    say_saved(yard, 12)
    until(yard, status, 4)
    assert "as asked: saved step 12" in yard.run.reason_sentence


def test_a_person_asks_for_a_number_and_it_stays_so(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    steps(yard, 10)
    run = actions.resize_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk), nodes=1)
    assert run.status == "RESIZING"
    assert run.reason_sentence.startswith("mate asked for 1 node. The run shrinks from 2 to 1 node. Its ranks ")
    assert yard.tick() == "RESIZING"
    say_saved(yard, 12)
    until(yard, "SCHEDULED", 3)
    assert len(nodes(yard)) == 1
    start_again(yard)
    steps(yard, 20)
    trains(yard, 6)
    run = actions.resize_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk), nodes=None)
    assert run.status == "RESIZING" and run.node_limit is None


def test_more_than_there_is_waits_for_room(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    run = actions.resize_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk), nodes=3)
    assert run.status == "RUNNING"
    assert sentences(yard.run, "resize-asked") == ["mate asked for 3 nodes. It trains on 2 until that changes."]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 is no number of nodes"),
        (1, "1 is less than resources.nodes.min, which is 2"),
        (9, "9 is more than resources.nodes.max, which is 8"),
        (5, "its degrees or its batch do not divide among the 5 ranks"),
    ],
)
def test_a_number_that_it_cannot_have_is_refused(yard: Yard, number: int, words: str) -> None:
    elastic(yard, 2, 8)
    with pytest.raises(ValidationError, match=words):
        actions.resize_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk), nodes=number)


def test_only_an_elastic_run_that_goes_on_is_resized(yard: Yard) -> None:
    with pytest.raises(Refused, match="just 2 nodes"):
        actions.resize_run(actor=yard.cast.mate, run=yard.run, nodes=1)
    elastic(yard)
    run = actions.stop_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
    with pytest.raises(Refused, match="already ended: CANCELLED"):
        actions.resize_run(actor=yard.cast.mate, run=run, nodes=1)


def test_runs_of_lower_priority_make_room_and_return(yard: Yard) -> None:
    elastic(yard, 1, 2)
    yard.start()
    steps(yard, 10)
    document = spec(resources={"nodes": 1, "processes_per_node": 1, "accelerator": "auto"}, priority="high")
    high = submitted(yard, document)
    assert yard.tick() == "RESIZING"
    assert sentences(yard.run, "resizing")[0].startswith(
        f"Run {high.name} has a higher priority and needs nodes: the run shrinks from 2 to 1 node. "
    )
    say_saved(yard, 12)
    until(yard, "SCHEDULED", 3)
    high.refresh_from_db()
    assert high.status == "SCHEDULED" and len(nodes(yard)) == 1


def test_what_was_idle_is_given_back_to_a_run_of_the_same_priority(yard: Yard) -> None:
    elastic(yard, 1, 2)
    yard.start()
    steps(yard, 10)
    other = submitted(yard, spec(resources={"nodes": 1, "processes_per_node": 1, "accelerator": "auto"}))
    assert yard.tick() == "RESIZING"
    assert sentences(yard.run, "resizing")[0].startswith(
        "Run other waits, and needs nodes that were idle before: the run shrinks from 2 to 1 node. "
        "It is expected to have 0.55 times the samples/s, if nine tenths of a step divide among nodes. Its ranks "
    )
    say_saved(yard, 12)
    until(yard, "SCHEDULED", 3)
    other.refresh_from_db()
    assert other.status == "SCHEDULED" and len(nodes(yard)) == 1


def test_it_says_what_came_of_a_change_and_expects_it_of_the_next(yard: Yard) -> None:
    elastic(yard)
    yard.start()
    for step in (10, 50):  # a step in half a second
        steps(yard, step)
        trains(yard, 20)
    Node.objects.filter(name="node-b").update(is_draining=True)
    steps(yard, 90)
    until(yard, "RESIZING", 2)
    say_saved(yard, 91)
    until(yard, "SCHEDULED", 3)
    start_again(yard)
    for step in (92, 112):  # a step in a second
        steps(yard, step)
        trains(yard, 20)
    steps(yard, 132)
    trains(yard, 1)
    assert sentences(yard.run, "speed-measured") == [
        "On 1 node a step takes 1 s, on 2 it took 0.5 s: 0.5 times the samples/s."
    ]
    Node.objects.filter(name="node-b").update(is_draining=False)
    until(yard, "RESIZING", 6)
    assert sentences(yard.run, "resizing")[1].startswith(
        "Node node-b is free: the run grows from 1 to 2 nodes. "
        "It is expected to have 2 times the samples/s, as it measured on both. Its ranks "
    )


def test_a_run_makes_no_room_for_as_long_as_its_cluster_spares_it(yard: Yard) -> None:
    elastic(yard, 1, 2)
    yard.start()
    steps(yard, 10)
    Cluster.objects.update(spared_minutes=10)
    one_node = {"nodes": 1, "processes_per_node": 1, "accelerator": "auto"}
    submitted(yard, spec(resources=one_node, priority="high"))
    assert yard.tick() == "RUNNING"
    Attempt.objects.update(go_at=yard.now - timedelta(minutes=10))
    assert yard.tick() == "RESIZING"


def test_a_run_of_one_size_is_saved_queued_again_and_not_counted(yard: Yard) -> None:
    document = spec(
        resources={"nodes": 2, "processes_per_node": 1, "accelerator": "auto"},
        restarts={"max": 1},
        checkpoint={"every_steps": 10, "keep": 3},
    )
    Run.objects.filter(pk=yard.run.pk).update(spec=document)
    Node.objects.update(slots=1)
    yard.start()
    high = submitted(yard, {**document, "priority": "high"})
    assert yard.tick() == "STOPPING"
    say_saved(yard, 12)
    until(yard, "QUEUED", 3)
    first = yard.run.attempts.get(number=1)
    assert first.known_cause is not None and first.known_cause.cause_class == "preempted"
    assert first.reason_sentence == "Made room: saved step 12 and ended in 2.5 s."
    high.refresh_from_db()
    assert high.status == "SCHEDULED" and yard.run.wanted == "run" and yard.run.restarts.total == 0
    actions.stop_run(actor=yard.cast.mate, run=high)
    until(yard, "SCHEDULED", 10)
    assert Event.objects.filter(run=yard.run, code="preempted").exists()


def test_a_project_takes_back_the_slots_that_it_is_guaranteed(yard: Yard) -> None:
    document = spec(
        resources={"nodes": 2, "processes_per_node": 1, "accelerator": "auto"},
        restarts={"max": 1},
        checkpoint={"every_steps": 10, "keep": 3},
    )
    Run.objects.filter(pk=yard.run.pk).update(spec=document, priority=100)
    Node.objects.update(slots=1)
    yard.start()
    other = Project.objects.create(name="other", guaranteed_slots=1)
    yard.cast.cluster.projects.add(other)
    own = {"project": other, "cluster": yard.cast.cluster, "created_by": yard.cast.mate}
    one_node = {"nodes": 1, "processes_per_node": 1, "accelerator": "auto"}
    owed = Run.make(name="owed", spec={**document, "resources": one_node, "priority": "low"}, **own)
    assert yard.tick() == "STOPPING"
    assert sentences(yard.run, "making-room")[0].startswith(
        "Project other needs slots that it is guaranteed, for run owed: "
    )
    say_saved(yard, 12)
    until(yard, "QUEUED", 3)
    owed.refresh_from_db()
    assert owed.status == "SCHEDULED"


def test_a_run_grows_no_further_than_its_project_may(yard: Yard) -> None:
    elastic(yard, 1, 3)
    Project.objects.update(slots=2)
    assert yard.tick() == "SCHEDULED" and len(nodes(yard)) == 1, "it starts on its least number"
    start_again(yard)
    steps(yard, 5)
    joined = Voice(make_node(yard.cast.cluster, "node-c", slots=1))
    yard.voices.append(joined)
    until(yard, "RESIZING", 40)
    assert "grows from 1 to 2 nodes" in sentences(yard.run, "resizing")[0]

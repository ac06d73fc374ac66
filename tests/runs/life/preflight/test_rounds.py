"""Control and nodes with a real Valkey: bad nodes are left out and return, and preflights that are asked for end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import actions
from runs.life.preflight.pairs import collective_checks
from runs.models import Preflight, Run
from runs.rights.access import Forbidden
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.life.preflight.test_checks import checked
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import Voice
from trainyard.contract.machines import CollectiveResult

MakeRun = Callable[..., Run]
FOLDER = {"path": "/ckpt", "free_bytes": 10**12, "total_bytes": 10**12}


def checks(yard: Yard, number: int, **changes: Any) -> None:
    """Let a node report checks: in order, but for the changes."""
    node = yard.voices[number].node
    others = {voice.node.pk: {"at": yard.now.timestamp(), "seconds": 0.001} for voice in yard.voices}
    del others[node.pk]
    yard.voices[number].self_check = {
        "at": yard.now.timestamp(),
        "home": FOLDER,
        "checkpoints": FOLDER,
        "clock_ahead_s": 0.0,
        "port": 40_000 + number,
        "peers": others,
        "gpus": [],
        **changes,
    }


def in_order(yard: Yard) -> None:
    for number in range(len(yard.voices)):
        checks(yard, number)


def test_what_was_known_of_the_nodes_is_kept_with_the_attempt(yard: Yard) -> None:
    in_order(yard)
    yard.start()
    (kept,) = Preflight.objects.filter(attempt=yard.attempt)
    assert kept.why == Preflight.Why.PLACED and kept.state == "ok" and kept.ended_at is not None
    assert {check.name for check in kept.checks} >= {"connection", "clock", "checkpoints-disk", "home-disk"}


def test_a_run_waits_for_a_node_that_fails_and_is_placed_once_it_passes(yard: Yard) -> None:
    in_order(yard)
    checks(yard, 1, checkpoints={**FOLDER, "problem": "is a file, not a folder"})
    assert yard.tick() == "QUEUED"
    assert yard.run.reason_sentence == (
        "Waiting for other nodes on cluster local: node-b is left out, and the rest cannot hold it. "
        "The folder of checkpoints on node-b, /ckpt, is a file, not a folder."
    )
    checks(yard, 1)
    assert yard.tick() == "SCHEDULED"


def test_a_run_goes_to_other_nodes_and_says_which_it_goes_without(yard: Yard) -> None:
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    in_order(yard)
    problem = {yard.voices[1].node.pk: {"at": yard.now.timestamp(), "problem": "nothing answers"}}
    checks(yard, 0, peers={**yard.voices[0].self_check["peers"], **problem})
    checks(yard, 2, peers={**yard.voices[2].self_check["peers"], **problem})
    assert yard.tick() == "SCHEDULED"
    assert [one.node.name for one in yard.placements] == ["node-a", "node-c"]
    event = yard.run.events.get(code="placed")
    assert event.sentence == ("Placed on node-a and node-c. Left out: node-a does not reach node-b: nothing answers.")


def test_a_run_that_wants_no_checks_is_placed_all_the_same(yard: Yard) -> None:
    in_order(yard)
    checks(yard, 1, clock_ahead_s=7200.0)
    yard.run.spec = {**yard.run.spec, "preflight": "never"}
    yard.run.save()
    assert yard.tick() == "SCHEDULED"


def test_nodes_of_a_version_without_checks_are_placed_as_before(yard: Yard) -> None:
    yard.start()
    assert not Preflight.objects.exists()


def test_nodes_hear_of_each_other_within_five_seconds(yard: Yard) -> None:
    in_order(yard)
    asked: dict[int, Any] = {}
    for _ in range(6):
        yard.tick()
        for number, voice in enumerate(yard.voices):
            asked[number] = voice.heard().get("probe") or asked.get(number)
    assert [peer["name"] for peer in asked[0]["peers"]] == ["node-b"]
    assert asked[1]["peers"] == [
        {"node": yard.voices[0].node.pk, "name": "node-a", "address": "127.0.0.1", "port": 40_000}
    ]


def test_a_preflight_ends_when_every_node_has_answered(yard: Yard) -> None:
    in_order(yard)
    yard.tick()
    asked = actions.check_cluster(actor=yard.cast.mate, cluster=yard.cast.cluster)
    assert actions.check_cluster(actor=yard.cast.mate, cluster=yard.cast.cluster) == asked
    yard.tick()
    assert yard.voices[0].heard()["probe"]["id"] == asked.pk
    for number in (0, 1):
        checks(yard, number, answers=asked.pk)
    yard.tick()
    asked.refresh_from_db()
    assert asked.ended_at is not None and asked.state == "ok"


def test_a_node_that_does_not_answer_is_named(yard: Yard) -> None:
    in_order(yard)
    yard.tick()
    asked = actions.check_cluster(actor=yard.cast.mate, cluster=yard.cast.cluster)
    checks(yard, 0, answers=asked.pk)
    for _ in range(20):
        yard.tick()
    asked.refresh_from_db()
    assert asked.state == "warn"
    (late,) = [one for one in asked.checks if one.name == "contact"]
    assert late.sentence == "node-b did not check itself within 15 s; what it reported before is shown."


def test_only_who_may_run_there_may_ask(yard: Yard, cast: Cast) -> None:
    for person in (cast.viewer, cast.outsider):
        with pytest.raises(Forbidden):
            actions.check_cluster(actor=person, cluster=cast.cluster)
    assert not Preflight.objects.exists()


def test_a_cluster_without_nodes_is_refused(cast: Cast, db: None) -> None:
    with pytest.raises(actions.Refused, match="has no node that could be checked"):
        actions.check_cluster(actor=cast.owner, cluster=cast.cluster)


def test_a_run_is_checked_where_it_was_placed(yard: Yard, make_run: MakeRun) -> None:
    single = make_run(name="single", spec=spec(resources={"nodes": 1, "processes_per_node": 1}))
    in_order(yard)
    yard.start()
    asked = actions.check_run(actor=yard.cast.mate, run=yard.run)
    assert set(asked.nodes) == {voice.node.pk for voice in yard.voices}
    assert actions.check_run(actor=yard.cast.mate, run=single) == asked  # never placed: the cluster's nodes


def test_a_collective_goes_over_the_nodes_that_train_nothing(yard: Yard) -> None:
    Run.objects.filter(pk=yard.run.pk).update(status="PAUSED")  # nothing waits for the nodes
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    in_order(yard)
    for number, voice in enumerate(yard.voices):
        voice.asked = {"torch": "2.13.0"}  # type: ignore[dict-item]
        checks(yard, number, meeting_port=50_000 + number)
    yard.tick()
    busy = make_run(yard.cast, spec=spec(), status="RUNNING")
    make_attempt(busy, [yard.voices[1].node])
    asked = actions.check_cluster(actor=yard.cast.mate, cluster=yard.cast.cluster)
    yard.tick()
    plans = [voice.heard()["probe"]["collective"] for voice in yard.voices]
    assert plans[0] == {"rank": 0, "world_size": 2, "address": "127.0.0.1", "port": 50_000}
    assert plans[1] is None
    assert plans[2] == {**plans[0], "rank": 1}
    took = {"latency_s": 0.001, "bytes_per_s": 2.0**30, "world_size": 2}
    for number, result in ((0, took), (1, None), (2, took)):
        checks(yard, number, answers=asked.pk, collective=result)
    yard.tick()
    asked.refresh_from_db()
    (found,) = [one for one in asked.checks if one.name == "collective"]
    assert (found.state, found.value, found.unit) == ("ok", 2.0**30, "B/s")
    assert found.sentence == (
        "An all-reduce of 4.0 MiB over 2 nodes sends 1.0 GiB/s; one of a single number takes 1.00 ms."
    )


def test_a_collective_that_fails_names_the_node() -> None:
    nodes = [checked("node-a"), checked("node-b")]
    assert nodes[1].own is not None
    nodes[1].own.collective = CollectiveResult(problem="connect timeout")
    (found,) = collective_checks(nodes)
    assert (found.state, found.node) == ("fail", "node-b")
    assert found.sentence == "A collective over 2 nodes failed on node-b: connect timeout."

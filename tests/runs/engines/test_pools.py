"""Machines that stay between runs: asked for as runs wait, used one after the other, given back when they are idle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs import actions
from runs.engines.machine_system import JobState
from runs.engines.pools import Pool
from runs.models import Allocation, HeldSlot, JoinToken, Node
from runs.rights.access import Forbidden
from tests.runs.engines.conftest import Scene
from tests.voices import Voice


@pytest.fixture
def pool(scene: Scene) -> Scene:
    """The run of two nodes, on a cluster whose machines stay for a minute."""
    scene.cluster = actions.edit_cluster(
        actor=scene.cast.owner, cluster=scene.cluster, settings={"machines": 3, "pool_idle": "1m"}
    )
    return scene


def secret(scene: Scene, machine: str) -> str:
    return Pool(scene.cluster, scene.engine, timezone.now())._secret(machine)


def come(scene: Scene) -> None:
    """All that was asked for runs and joins."""
    for job in [one for one in scene.engine.table.values() if one.state == JobState.PENDING]:
        scene.engine.change(job.id, state=JobState.RUNNING)
        name = f"hpc-{job.attempt}"
        scene.voices.append(Voice(actions.join_node(secret=secret(scene, job.attempt), name=name)))


def said(scene: Scene) -> str:
    scene.cluster.refresh_from_db()
    return str(scene.cluster.pool["sentence"])


def trained(scene: Scene) -> None:
    """The run starts on both nodes and succeeds."""
    done = {"rank": 0, "exit_code": 0, "signal": None, "started_at": 1.0, "ended_at": 2.0}
    for phase, ranks in (("ready", None), ("running", None), ("ended", done)):
        placements = scene.run.attempts.latest("number").placements.select_related("node", "attempt__run")
        for placement in placements:
            voice = next(one for one in scene.voices if one.node.pk == placement.node_id)
            changes = {"ranks": [{**ranks, "rank": placement.node_rank}]} if ranks else {}
            voice.report(placement, phase, scene.now, **changes)
        scene.tick()


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    moved = timezone.now() + timedelta(seconds=seconds)
    monkeypatch.setattr("runs.engines.allocations.timezone.now", lambda: moved)


def test_machines_come_for_a_run_stay_behind_it_and_leave_when_they_were_idle(
    pool: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.tick() == "QUEUED"
    pool.round()
    assert said(pool) == "0 of at most 3 nodes: 1 run waits for 2 slots." and pool.engine.num_submitted == 2
    pool.round()
    assert said(pool) == "0 of at most 3 nodes, 2 on the way: 1 run waits for 2 slots."
    assert pool.engine.num_submitted == 2 and pool.tick() == "QUEUED"
    come(pool)
    assert pool.tick() == "SCHEDULED"
    pool.round()
    assert said(pool) == "2 of at most 3 nodes: no run waits for more." and not Allocation.objects.exists()
    trained(pool)
    pool.run.attempts.update(ended_at=timezone.now())
    HeldSlot.objects.all().delete()
    pool.round()
    assert said(pool) == "2 of at most 3 nodes: 2 idle." and not pool.engine.cancelled
    later(monkeypatch, 61)
    pool.round()
    assert set(Node.objects.present().filter(cluster=pool.cluster).values_list("is_draining", flat=True)) == {True}
    for _ in range(3):
        pool.round()
    assert (
        sorted(pool.engine.cancelled) == ["1", "2"] and not Node.objects.present().filter(cluster=pool.cluster).exists()
    )
    assert said(pool) == "0 of at most 3 nodes: no run waits for more." and pool.engine.num_submitted == 2


def test_an_ask_that_fails_is_said_and_repeated_after_a_pause(pool: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.engine.refusal = "The account has no budget left."
    pool.tick()
    for _ in range(3):
        pool.round()
    assert said(pool).startswith("0 of at most 3 nodes: 1 run waits for 2 slots; the last ask failed, the next is in 1")
    assert said(pool).endswith(" s: The account has no budget left.") and pool.cluster.pool["failed"] == 1
    pool.engine.refusal = ""
    later(monkeypatch, 16)
    pool.round()
    assert pool.engine.num_submitted == 2


def test_a_job_that_ends_before_its_node_joined_is_a_failure_and_a_lost_answer_leaves_none(
    pool: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.engine.loses_answers = True
    pool.tick()
    pool.round()
    assert not JoinToken.objects.exists(), "its machine may not join"
    pool.engine.loses_answers = False
    pool.round()
    assert pool.engine.cancelled == ["1"], "nobody knows of it"
    later(monkeypatch, 16)
    pool.round()
    assert pool.engine.num_submitted == 3
    pool.engine.change("2", state=JobState.OVER, end_sentence="Its image is not there.")
    pool.round()
    assert "Its image is not there" in said(pool) and len(pool.cluster.pool["machines"]) == 1


def test_a_node_that_is_lost_in_a_run_leaves_behind_it(pool: Scene) -> None:
    pool.tick()
    pool.round()
    come(pool)
    assert pool.tick() == "SCHEDULED"
    pool.engine.change("1", state=JobState.OVER)
    pool.round()
    assert Node.objects.present().filter(cluster=pool.cluster).count() == 2, "its run is on it"
    HeldSlot.objects.all().delete()
    pool.round()
    assert Node.objects.present().filter(cluster=pool.cluster).count() == 1


def test_a_token_of_the_pool_is_for_one_machine_once_and_not_for_long(pool: Scene) -> None:
    pool.tick()
    pool.round()
    first, second = (secret(pool, job.attempt) for job in pool.engine.table.values())
    actions.join_node(secret=first, name="a")
    with pytest.raises(Forbidden, match="already used"):
        actions.join_node(secret=first, name="b")
    JoinToken.objects.update(expires_at=timezone.now())
    with pytest.raises(Forbidden, match="too old"):
        actions.join_node(secret=second, name="b")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("pool_idle", "5s", "At least 10 s"), ("pool_idle", "soon", "soon"), ("pool_least", -1, "-1")],
)
def test_wrong_settings_are_refused_by_name(pool: Scene, name: str, value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        actions.edit_cluster(actor=pool.cast.owner, cluster=pool.cluster, settings={name: value})
    assert any(name in key for key in caught.value.message_dict) and words in str(caught.value)

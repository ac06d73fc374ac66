"""Runs with ``preflight: always``: their nodes check themselves before each attempt, and they begin once these pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runs import actions
from runs.life.preflight.beforehand import FRESH_S
from runs.life.preflight.rounds import ASKED_LIMIT_S
from runs.models import Preflight, Run
from tests.cast import make_node, spec
from tests.runs.life.preflight.test_rounds import checks, in_order
from tests.runs.life.reconcile.conftest import Yard
from tests.runs.life.reconcile.test_recovering import kill, restarts
from tests.voices import Voice

MakeRun = Callable[..., Run]


@pytest.fixture
def careful(yard: Yard) -> Yard:
    in_order(yard)
    yard.run.spec = {**yard.run.spec, "preflight": "always"}
    yard.run.save()
    return yard


def asked() -> list[Preflight]:
    return list(Preflight.objects.filter(why=Preflight.Why.ASKED).order_by("created_at"))


def answer(yard: Yard, *numbers: int, **changes: object) -> None:
    """Let these nodes, or all, answer the newest check."""
    for number in numbers or range(len(yard.voices)):
        checks(yard, number, answers=asked()[-1].pk, **changes)


def test_it_waits_for_a_check_of_its_nodes_and_keeps_its_room(careful: Yard, make_run: MakeRun) -> None:
    assert careful.tick() == "QUEUED"
    assert careful.run.reason_sentence == "node-a and node-b check themselves before it starts (preflight: always)."
    (check,) = asked()
    assert set(check.nodes) == {voice.node.pk for voice in careful.voices} and check.asked_by is None
    later = make_run(name="later", spec=spec(resources={"nodes": 2, "processes_per_node": 2}))
    assert careful.tick() == "QUEUED" and asked() == [check]
    later.refresh_from_db()
    assert later.status == "QUEUED"
    answer(careful)
    careful.tick()
    assert careful.tick() == "SCHEDULED"


def test_a_check_that_has_just_been_made_is_enough(careful: Yard) -> None:
    careful.voices[0].up(careful.now)
    check = actions.check_cluster(actor=careful.cast.mate, cluster=careful.cast.cluster)
    assert careful.tick() == "QUEUED" and asked() == [check]
    answer(careful)
    careful.tick()
    assert careful.tick() == "SCHEDULED" and asked() == [check]


def test_a_node_that_does_not_answer_is_left_out_and_looked_at_again(careful: Yard) -> None:
    careful.tick()
    answer(careful, 0)
    for _ in range(int(ASKED_LIMIT_S) + 3):
        careful.tick()
    assert careful.status == "QUEUED" and len(asked()) == 1
    assert "node-b did not check itself within 15 s" in careful.run.reason_sentence
    careful.later(FRESH_S)
    careful.tick()
    assert len(asked()) == 2
    answer(careful)
    careful.tick()
    assert careful.tick() == "SCHEDULED"


def test_a_collective_that_fails_sends_it_to_other_nodes(careful: Yard) -> None:
    careful.tick()
    answer(careful)
    Preflight.objects.update(collective=[voice.node.pk for voice in careful.voices])
    checks(careful, 1, answers=asked()[-1].pk, collective={"problem": "node-a was not there within 20 s"})
    careful.tick()
    assert careful.tick() == "QUEUED"
    assert (
        "A collective over 2 nodes failed on node-b: node-a was not there within 20 s." in careful.run.reason_sentence
    )
    careful.voices.append(Voice(make_node(careful.cast.cluster, "node-c")))
    for number in (0, 2):
        checks(careful, number)
    careful.tick()
    careful.tick()
    assert careful.run.reason_sentence.startswith("node-a and node-c check themselves before it starts")
    answer(careful, 0, 2)
    careful.tick()
    assert careful.tick() == "SCHEDULED"
    assert [one.node.name for one in careful.placements] == ["node-a", "node-c"]


def test_after_a_failure_they_are_checked_anew(careful: Yard) -> None:
    restarts(careful)
    careful.run.spec = {**careful.run.spec, "preflight": "always"}
    careful.run.save()
    careful.tick()
    answer(careful)
    careful.tick()
    careful.start()
    kill(careful)
    for _ in range(3):
        careful.tick()
    assert careful.run.status == "RECOVERING" and careful.run.attempts.count() == 1
    assert len(asked()) == 2
    answer(careful)
    careful.tick()
    careful.tick()
    assert careful.run.attempts.count() == 2


def test_nodes_of_a_version_without_checks_are_not_waited_for(yard: Yard) -> None:
    yard.run.spec = {**yard.run.spec, "preflight": "always"}
    yard.run.save()
    assert yard.tick() == "SCHEDULED"

"""A dataset is looked at by a node, though messages are lost and nodes fall silent."""

from __future__ import annotations

from typing import Any

import pytest

from runs import actions
from runs.models import Dataset, Node
from tests.datasets import TABLE, make_dataset
from tests.runs.life.reconcile.conftest import Yard
from trainyard.contract import seals
from trainyard.contract.base import to_builtins
from trainyard.contract.inspections import Inspect, Question
from trainyard.contract.locks import unlock

State = Dataset.State


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What nodes were sent: whose queue, and the question as the node's key opens it."""
    found: list[tuple[str, Any]] = []

    def publish(task: str, queue: str, sealed: str) -> None:
        if task == seals.INSPECT:
            node = Node.objects.get(name=queue.removeprefix("node."))
            command = seals.unseal(node.key, seals.command_scope(task, node.pk), sealed, Inspect, max_age_s=60)
            assert "/data/" not in sealed, "whoever reads along reads no question"
            question = unlock(node.key, seals.node_scope("question", node.pk), command, Question)
            found.append((node.name, to_builtins(question)))

    monkeypatch.setattr("runs.engines.celery.publish", publish)
    return found


def forget_the_hint(dataset: Dataset) -> None:
    """Let those seconds pass in which a question is not repeated: Valkey has a clock of its own."""
    from runs.serving.transport import redis

    redis().delete(f"trainyard:control:asked:{dataset.question}")


def test_the_next_tick_asks_a_node_all_that_it_needs(yard: Yard, sent: Any) -> None:
    dataset = make_dataset(yard.cast)
    yard.tick()
    dataset.refresh_from_db()
    ((name, question),) = sent
    assert (name, dataset.state, dataset.checked_by) == ("node-a", State.CHECKING, yard.voices[0].node)
    assert (question["dataset"], question["question"]) == (dataset.pk, dataset.question)
    assert question["recipe"] == "tabular"
    assert question["data"]["target"] == "height" and question["data"]["digest"] == ""
    assert question["data"]["location"] == "/data/trees.csv"


def test_a_lost_hint_is_sent_again_until_the_node_lists_the_question(yard: Yard, sent: Any) -> None:
    dataset = make_dataset(yard.cast)
    yard.tick()
    dataset.refresh_from_db()
    yard.tick()
    assert len(sent) == 1, "not every second"
    forget_the_hint(dataset)
    yard.tick()
    assert [name for name, _ in sent] == ["node-a", "node-a"]
    yard.voices[0].inspecting = [dataset.question]
    forget_the_hint(dataset)
    for _ in range(4):
        yard.later(30)
        yard.tick()
    assert len(sent) == 2, "it looks, however long that takes"


def test_a_silent_node_is_passed_over_and_answers_too_late(yard: Yard, sent: Any) -> None:
    dataset = make_dataset(yard.cast)
    yard.tick()
    dataset.refresh_from_db()
    first = dataset.question
    yard.later(60)
    for _ in range(2):
        yard.tick(0)
    dataset.refresh_from_db()
    node_a, node_b = (voice.node for voice in yard.voices)
    assert (dataset.state, dataset.checked_by, sent[-1][0]) == (State.CHECKING, node_b, "node-b")
    answer = {"dataset_id": dataset.pk, "facts": TABLE, "problem": ""}
    assert not actions.answer_dataset(node=node_a, question=first, **answer)
    assert actions.answer_dataset(node=node_b, question=dataset.question, **answer)


def test_a_node_that_is_there_and_never_begins_is_passed_over_too(yard: Yard, sent: Any) -> None:
    dataset = make_dataset(yard.cast)
    yard.tick()
    yard.later(60)
    for _ in range(2):
        yard.tick()
    dataset.refresh_from_db()
    assert dataset.checked_by == yard.voices[1].node


def test_without_a_node_it_waits(yard: Yard, sent: Any) -> None:
    dataset = make_dataset(yard.cast)
    for _ in range(3):
        yard.tick(0, 1)
    dataset.refresh_from_db()
    assert dataset.state == State.WAITING and sent == []
    yard.tick(0)
    dataset.refresh_from_db()
    assert dataset.checked_by == yard.voices[1].node


def test_what_is_ready_is_left_alone(yard: Yard, sent: Any) -> None:
    make_dataset(yard.cast, state=State.READY)
    make_dataset(yard.cast, name="other", state=State.FAILED)
    yard.tick()
    assert sent == []

"""Has nodes inspect datasets: sends the question, repeats it while no node lists it, and then sends it to another."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F

from runs.engines import engine_of
from runs.inputs import datasets
from runs.life.reconcile.listening import Listener
from runs.models import Dataset, Node
from runs.serving import broadcast
from runs.serving.transport import redis
from trainyard.contract import seals
from trainyard.contract.inspections import Question

AGAIN_S = 5  # between two hints of one question
SILENT_S = 60.0  # a node that has not begun by then is passed over
State = Dataset.State


def inspect(nodes: Sequence[Node], listener: Listener) -> None:
    """Look at every dataset that is open. Idempotent: what a node has, its up document lists."""
    waiting = Dataset.objects.filter(state__in=(State.WAITING, State.CHECKING), cluster__projects=F("project"))
    for dataset in waiting.select_related("checked_by", "project"):
        able = [node for node in nodes if node.cluster_id == dataset.cluster_id and listener.is_answering(node)]
        able.sort(key=lambda node: (node.is_draining, node.name))
        if dataset.state == State.WAITING or dataset.asked_at is None:
            if able:
                _turn_to(dataset, able[0], listener.now)
        else:
            _repeat_or_pass_on(dataset, able, listener, dataset.asked_at)


def _repeat_or_pass_on(dataset: Dataset, able: list[Node], listener: Listener, asked_at: datetime) -> None:
    asked = next((node for node in able if node.pk == dataset.checked_by_id), None)
    if asked is not None and dataset.question in listener.statuses[asked.pk].inspecting:
        return
    if (listener.now - asked_at).total_seconds() < SILENT_S:
        if asked is not None:
            _hint(dataset, asked)
    elif able:
        _turn_to(dataset, able[(able.index(asked) + 1) % len(able) if asked is not None else 0], listener.now)


def _turn_to(dataset: Dataset, node: Node, now: datetime) -> None:
    """Ask this node from here on; what another one answers now is too late."""
    before = Dataset.objects.filter(pk=dataset.pk, state=dataset.state, asked_at=dataset.asked_at)
    if before.update(state=State.CHECKING, checked_by=node, asked_at=now):
        dataset.state, dataset.checked_by, dataset.asked_at = State.CHECKING, node, now
        broadcast.datasets_changed()
        _hint(dataset, node)


def _hint(dataset: Dataset, node: Node) -> None:
    if not redis().set(f"{seals.PREFIX}:control:asked:{dataset.question}", 1, nx=True, ex=AGAIN_S):
        return
    question = Question(
        dataset=dataset.pk,
        question=dataset.question,
        recipe=datasets.recipe_of(dataset.source, dataset.options),
        project=dataset.project.name,
        data=datasets.data_of(dataset),
    )
    engine_of(node.cluster).inspect(node, question)

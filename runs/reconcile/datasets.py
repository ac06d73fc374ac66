"""Has nodes look at datasets: asks, asks again while nobody seems to have heard, and then asks another node."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F

from runs import broadcast, datasets, engine
from runs.models import Dataset, Node
from runs.reconcile.hear import Ear
from runs.serving.transport import redis
from trainyard.contract import keys, seals
from workers import contract

AGAIN_S = 5  # between two hints of one question
SILENT_S = 60.0  # a node that has not begun by then is passed over
State = Dataset.State


def ask(nodes: Sequence[Node], ear: Ear) -> None:
    """Look at every dataset that is open. Idempotent: what a node has, its up document lists."""
    waiting = Dataset.objects.filter(state__in=(State.WAITING, State.CHECKING), cluster__projects=F("project"))
    for dataset in waiting.select_related("checked_by", "project"):
        able = [node for node in nodes if node.cluster_id == dataset.cluster_id and ear.is_answering(node)]
        able.sort(key=lambda node: (node.is_draining, node.name))
        if dataset.state == State.WAITING or dataset.asked_at is None:
            if able:
                _turn_to(dataset, able[0], ear.now)
        else:
            _ask_on(dataset, able, ear, dataset.asked_at)


def _ask_on(dataset: Dataset, able: list[Node], ear: Ear, asked_at: datetime) -> None:
    asked = next((node for node in able if node.pk == dataset.checked_by_id), None)
    if asked is not None and dataset.question in ear.ups[asked.pk].get("inspecting", []):
        return
    if (ear.now - asked_at).total_seconds() < SILENT_S:
        if asked is not None:
            _hint(dataset, asked)
    elif able:
        _turn_to(dataset, able[(able.index(asked) + 1) % len(able) if asked is not None else 0], ear.now)


def _turn_to(dataset: Dataset, node: Node, now: datetime) -> None:
    """Ask this node from here on; what another one answers now is too late."""
    before = Dataset.objects.filter(pk=dataset.pk, state=dataset.state, asked_at=dataset.asked_at)
    if before.update(state=State.CHECKING, checked_by=node, asked_at=now):
        dataset.state, dataset.checked_by, dataset.asked_at = State.CHECKING, node, now
        broadcast.datasets_changed()
        _hint(dataset, node)


def _hint(dataset: Dataset, node: Node) -> None:
    if not redis().set(f"{keys.PREFIX}:control:asked:{dataset.question}", 1, nx=True, ex=AGAIN_S):
        return
    about = {"dataset": dataset.pk, "question": dataset.question, "project": dataset.project.name}
    recipe = datasets.recipe_of(dataset.source, dataset.options)
    question = {**about, "recipe": recipe, "data": datasets.data_of(dataset)}
    engine.command(node, keys.INSPECT, contract.lock(node.key, seals.question_scope(node.pk), question))

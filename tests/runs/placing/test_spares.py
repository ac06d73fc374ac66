"""Which idle nodes prepare for which runs, and who may fetch their code."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.utils import timezone

from runs.models import Node, Run
from runs.placing.spares import standby_of
from runs.presenting.server_state import num_ready, spare_sentence
from runs.values.status import Status
from tests.cast import Cast, make_node
from tests.cast import make_run as make

SCRIPT = {"script": "train.py", "code": {"sha256": "a" * 64}, "python": "python3"}


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def nodes(cast: Cast, now: datetime) -> list[Node]:
    found = [make_node(cast.cluster, name) for name in ("node-a", "node-b", "node-c")]
    Node.objects.update(seen_at=now)
    return found


@pytest.fixture
def run(cast: Cast) -> Run:
    run = make(cast)
    Run.objects.filter(pk=run.pk).update(
        status=Status.RUNNING, spec={**run.spec, "task": SCRIPT, "restarts": {"max": 3}}
    )
    run.refresh_from_db()
    return run


def names(nodes: list[Node], now: datetime) -> list[str]:
    found = standby_of(nodes, now)
    return sorted(node.name for node in nodes if node.pk in found)


def test_as_many_idle_nodes_prepare_as_the_cluster_says(cast: Cast, nodes: list[Node], run: Run, now: datetime) -> None:
    assert names(nodes, now) == ["node-a"]
    cast.cluster.spares = 2
    cast.cluster.save()
    assert names(nodes, now) == ["node-a", "node-b"]
    cast.cluster.spares = 0
    cast.cluster.save()
    assert names(nodes, now) == []


def test_nodes_that_could_not_take_over_prepare_nothing(nodes: list[Node], run: Run, now: datetime) -> None:
    Node.objects.filter(name="node-a").update(is_draining=True)
    Node.objects.filter(name="node-b").update(seen_at=None)
    assert names(nodes, now) == ["node-c"]


def test_what_is_prepared_is_the_code_and_the_interpreter(nodes: list[Node], run: Run, now: datetime) -> None:
    (wanted,) = standby_of(nodes, now)[nodes[0].pk]
    assert wanted.code is not None
    assert (wanted.run, wanted.code.sha256, wanted.python) == (run.pk, "a" * 64, "python3")


@pytest.mark.parametrize(
    "changes", [{"status": Status.SUCCEEDED}, {"status": Status.QUEUED}, {"restarts": {"max": 0}}], ids=str
)
def test_a_run_that_is_not_started_again_is_not_prepared(
    changes: dict[str, object], nodes: list[Node], run: Run, now: datetime
) -> None:
    rules = changes.pop("restarts", None)
    Run.objects.update(**changes, **({"spec": {**run.spec, "restarts": rules}} if rules else {}))
    assert standby_of(nodes, now) == {}


def test_the_page_says_for_how_many_runs_a_node_is_ready(nodes: list[Node]) -> None:
    node = nodes[0]
    assert spare_sentence(node) == ""
    node.standby = {"one": "", "two": ""}
    assert spare_sentence(node) == "A spare: it is ready to take over 2 runs of this cluster at once."
    assert num_ready(nodes) == 1
    node.standby = {"one": "", "two": "there is no program python9 here."}
    assert spare_sentence(node) == (
        "A spare: it is ready to take over 1 of 2 runs of this cluster; "
        "for the others, there is no program python9 here."
    )
    assert num_ready(nodes) == 0

"""The machines of a run in one picture, beside what its nodes have said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Run, User
from runs.records.metrics.models import NodeSample
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def health(*busy: float | None, **more: Any) -> dict[str, Any]:
    gpus = [
        {"index": index, "utilization_percent": one, "memory_bytes": 80 * 2**30, "memory_used_bytes": 60 * 2**30}
        for index, one in enumerate(busy)
    ]
    return {"cpu_percent": 40.0, "memory_bytes": 2**34, "memory_used_bytes": 2**33, "gpus": gpus, **more}


def test_each_node_has_a_row_and_each_gpu_that_the_run_holds_a_cell(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    nodes = [make_node(cast.cluster, name, slots=4) for name in ("one", "two")]
    for node, busy in zip(nodes, [(97.0, 12.0, 50.0), (None, float(0), 99.0)], strict=True):
        node.health = health(*busy)
        node.save()
    run = make_run(status=Status.RUNNING)
    make_attempt(run, nodes, ranks=2)  # of three GPUs each
    answer = as_user(cast.viewer).get(f"/runs/{run.pk}/system/")
    found = answer.context["machines"]
    assert [(one.node.name, one.ranks, one.is_old) for one in found] == [
        ("one", "0 to 1", False),
        ("two", "2 to 3", False),
    ]
    assert [[(cell.text, cell.tenths) for cell in one.cells] for one in found] == [
        [("97", 10), ("12", 1)],
        [("–", None), ("0", 0)],
    ]
    assert found[0].cells[0].words == "GPU 0: 97 % busy, memory 60.0 GiB of 80.0 GiB"
    assert [gauge.value for gauge in found[0].gauges][:2] == ["40 %", "50 %"]
    text = answer.content.decode()
    assert 'class="gpu-cell heat-10" title="GPU 0: 97 % busy' in text


def test_an_attempt_that_has_ended_shows_its_end_and_not_what_the_node_does_now(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    node, ended = make_node(cast.cluster, health=health(3.0)), timezone.now() - timedelta(hours=2)
    run = make_run(status=Status.SUCCEEDED, ended_at=ended)
    attempt = make_attempt(run, [node], ended_at=ended)
    attempt.placements.get().held_slots.all().delete()
    for seconds, busy in ((-5.0, 88.0), (5.0, 1.0)):
        NodeSample.objects.create(node_id=node.pk, at=ended.timestamp() + seconds, health=health(busy))
    [found] = as_user(cast.viewer).get(f"/runs/{run.pk}/system/").context["machines"]
    assert ([cell.text for cell in found.cells], found.is_old, found.at) == (["88"], True, ended)


def test_a_node_that_is_silent_says_how_old_its_figures_are(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    seen = timezone.now() - timedelta(minutes=5)
    run = make_run(status=Status.RUNNING)
    make_attempt(run, [make_node(cast.cluster, health=health(3.0), seen_at=seen)])
    text = as_user(cast.viewer).get(f"/runs/{run.pk}/system/?fragment=system").content.decode()
    assert "5 min ago" in text


def test_a_run_without_a_place_and_one_from_elsewhere_say_so(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    client = as_user(cast.viewer)
    assert "not been placed" in client.get(f"/runs/{make_run().pk}/system/").content.decode()
    outside = make_run(local_id="abc", status=Status.RUNNING)
    assert "outside of Trainyard" in client.get(f"/runs/{outside.pk}/system/?fragment=system").content.decode()


def test_a_node_that_said_nothing_has_no_figures(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    make_attempt(run, [make_node(cast.cluster)])
    assert "No sample was kept." in as_user(cast.viewer).get(f"/runs/{run.pk}/system/").content.decode()

"""What a spec would cost, by REST: asked beforehand, and read of a run afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.models import Membership, Node, Project, Role, Run
from runs.records.metrics.models import Fact
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api
from trainyard.planner import default_rates
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
CPU = {"hostname": "box", "cpu": {"model": "A CPU", "count": 4}, "memory_bytes": 8 * 2**30, "gpus": []}


@pytest.fixture
def nodes(cast: Cast) -> list[Node]:
    return [make_node(cast.cluster, name, inventory=CPU) for name in ("a", "b")]


def problems(answer: Any) -> dict[str, str]:
    assert answer.status_code == 422, answer.content
    return {one["path"]: one["message"] for one in answer.json()["errors"]}


def test_a_spec_is_planned_and_nothing_is_written(mate: Api, nodes: list[Node]) -> None:
    answer = mate("POST", "/plans", spec(resources={"nodes": 2})).json()
    assert answer["nodes"] == ["a", "b"] and answer["rates"] == {"is_measured": False, "run": None, "at": None}
    assert len(answer["estimate"]["memory"]) == 2 and answer["estimate"]["step_time"]["total"] > 0
    assert 1 <= len(answer["proposals"]) <= 3 and answer["proposals"][0]["sentence"]
    assert not Run.objects.exists()


def test_a_plan_says_when_it_would_start_and_what_a_smaller_shape_gains(
    mate: Api, cast: Cast, nodes: list[Node]
) -> None:
    def start() -> tuple[Any, ...]:
        answer = mate("POST", "/plans", spec(resources={"nodes": 2})).json()
        return answer["reason"], answer["predicted_start"], answer["smaller"]

    assert start() == ("", None, [])
    run = make_run(cast, status=Status.RUNNING, limit_s=3_660.0, num_nodes=1, slots_per_node=2)
    make_attempt(run, nodes[:1], ranks=2)
    reason, times, smaller = start()
    assert reason.startswith("Waiting for 1 more node with 1 free CPU slot")
    assert times["low"] <= times["at"] <= times["high"]
    assert smaller == [{"changes": {"resources.nodes": 1}, "ranks": 1, "in_s": 0.0}]


def test_no_more_proposals_come_than_were_asked_for(mate: Api, nodes: list[Node]) -> None:
    assert mate("POST", "/plans?count=0", spec()).json()["proposals"] == []
    assert mate("POST", "/plans?count=11", spec()).status_code == 422


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        (spec(train={"steps": 0}), "train.steps", "must be at least 1"),
        ({"name": "x", "task": {"script": "a.py"}}, "task", "is nothing that the planner knows"),
        (spec(resources={"nodes": 9}, train={"batch_size": 36}), "resources.nodes", "9 is more than this cluster has"),
        (spec(resources={"nodes": 5_000}, train={"batch_size": 5_000}), "resources", "5,000 ranks are more than"),
        (spec(cluster="nowhere"), "cluster", "there is no cluster 'nowhere'"),
    ],
    ids=["bad-spec", "script", "too-many-nodes", "too-many-ranks", "no-cluster"],
)
def test_what_cannot_be_planned_is_refused_by_its_field(
    mate: Api, nodes: list[Node], document: dict[str, Any], path: str, message: str
) -> None:
    assert message in problems(mate("POST", "/plans", document))[path]


def test_a_cluster_without_nodes_has_nothing_to_plan_for(mate: Api) -> None:
    assert "has no nodes yet" in problems(mate("POST", "/plans", spec()))["cluster"]


def test_a_run_tells_what_was_predicted_and_what_was_measured(
    mate: Api, as_: Callable[[str], Api], nodes: list[Node]
) -> None:
    run = mate("POST", "/runs", spec()).json()["id"]
    before = mate("GET", f"/runs/{run}/plan").json()
    assert before["predicted"]["step_time"]["total"] > 0 and before["measured"] is None
    data = {"step_time_s": 0.5, "phases": {"forward": 0.1, "backward": 0.2}, "peak_memory_bytes": 2**28}
    Fact.objects.create(run_id=run, attempt=1, name="measured", rank=0, data=data, at=1.0)
    measured = mate("GET", f"/runs/{run}/plan").json()["measured"]
    assert measured["step_time"]["compute"] == pytest.approx(0.3) and measured["memory"] == {"0": 2**28}


def test_a_benchmark_that_one_does_not_see_is_counted_with_and_not_named(
    as_: Callable[[str], Api], nodes: list[Node], cast: Cast, make_run: Callable[..., Run]
) -> None:
    own = Project.objects.create(name="own")
    cast.cluster.projects.add(own)
    Membership.objects.create(project=own, user=cast.outsider, role=Role.MEMBER)
    document = {"name": "links", "task": {"recipe": "communication-benchmark"}, "resources": {"nodes": 2}}
    run = make_run(spec=parse_spec(document).resolved(), status=Status.SUCCEEDED, fence=1)
    make_attempt(run, nodes, fence=1, number=1)
    data = {**default_rates("cpu").as_document(), "is_measured": True}
    Fact.objects.create(run_id=run.pk, attempt=1, name="rates", rank=0, data=data, at=1.0)
    mine = as_("mate")("POST", "/plans", spec(resources={"nodes": 2})).json()["rates"]
    theirs = as_("outsider")("POST", "/plans", spec(project="own", resources={"nodes": 2})).json()["rates"]
    assert (mine["is_measured"], mine["run"]) == (True, run.pk)
    assert (theirs["is_measured"], theirs["run"], theirs["at"]) == (True, None, mine["at"])


def test_more_nodes_than_there_are_come_first(mate: Api, nodes: list[Node]) -> None:
    for path in ("/plans", "/runs"):
        answer = mate("POST", path, spec(resources={"nodes": 5}))
        assert [one["path"] for one in answer.json()["errors"]] == ["resources.nodes", "train.batch_size"]


def test_a_cluster_that_one_does_not_see_tells_nothing_of_its_size(
    as_: Callable[[str], Api], nodes: list[Node]
) -> None:
    answer = as_("outsider")("POST", "/plans", spec(resources={"nodes": 5}))
    assert [one["path"] for one in answer.json()["errors"]] == ["train.batch_size"]

"""Runs in containers go to nodes whose inventories name Podman."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from runs.actions.checking import check_launch
from runs.life.reconcile import schedule
from runs.models import CodeBundle, Node, Run
from runs.models.runs import size_of
from runs.placing.fitting import Placed, Waiting
from runs.placing.planning import likely_nodes, rooms_of
from runs.placing.queue import NEW, Ahead, request_of, requests_of
from runs.values.status import Status
from tests.cast import Cast, make_node, spec
from tests.servers import Valkey
from trainyard.spec import SpecError, parse_spec

pytestmark = pytest.mark.django_db
MakeRun = Callable[..., Run]
CODE = "a" * 64


def in_container(container: Any = "registry.example/train:1", **changes: Any) -> dict[str, Any]:
    document = spec(
        task={"script": "train.py", "code": {"sha256": CODE}}, environment={"container": container}, **changes
    )
    document.pop("train")
    return parse_spec(document).resolved()


def with_tools(cast: Cast, name: str, *tools: str) -> Node:
    return make_node(cast.cluster, name, inventory={"tools": list(tools)})


def why_refused(cast: Cast, document: dict[str, Any]) -> list[str]:
    CodeBundle.objects.get_or_create(
        project=cast.project, sha256=CODE, defaults={"size_bytes": 1, "files": ["train.py"], "created_by": cast.mate}
    )
    try:
        check_launch(actor=cast.mate, document=document)
    except SpecError as error:
        return [str(one) for one in error.errors]
    return []


def test_it_is_placed_on_the_node_with_podman(cast: Cast, make_run: MakeRun, valkey: Valkey) -> None:
    with_tools(cast, "a-bare", "uv")
    with_tools(cast, "b-able", "uv", "podman")
    document = in_container()
    runs = [make_run(spec=document, **size_of(document)), make_run(spec=spec(), **size_of(spec()))]
    schedule(cast.cluster.pk, timezone.now())
    placed = [run.attempts.get().placements.get().node.name for run in runs]
    assert placed == ["b-able", "b-able"], "the other one goes where the least is left unused"
    schedule(cast.cluster.pk, timezone.now())
    late = make_run(spec=document, **size_of(document))
    schedule(cast.cluster.pk, timezone.now())
    late.refresh_from_db()
    assert late.status == Status.QUEUED
    assert late.reason_sentence == (
        "Waiting for 1 more CPU slot on cluster local: 0 of 2 free; "
        "a-bare is without Podman, which its container needs."
    )


def test_what_waits_keeps_whether_it_needs_containers_beside_its_spec(cast: Cast, make_run: MakeRun) -> None:
    documents = [spec(), in_container(), in_container({"file": "Containerfile"}), in_container("")]
    for document in documents:
        make_run(spec=document, **size_of(document))
    make_run(spec=in_container())  # submitted before runs had columns
    assert [one.in_container for one in requests_of(Run.objects.order_by("pk"))].count(True) == 3
    assert [request_of("", document).in_container for document in documents] == [False, True, True, False]


def test_a_node_that_has_not_said_what_it_has_may_be_tried(cast: Cast) -> None:
    make_node(cast.cluster, "old", inventory={})
    with_tools(cast, "bare", "uv")
    rooms = rooms_of(list(Node.objects.select_related("cluster").order_by("name")), timezone.now())
    assert [(room.name, room.runs_containers) for room in rooms] == [("bare", False), ("old", True)]


def test_the_preview_says_where_it_starts_or_whom_it_waits_for(cast: Cast) -> None:
    bare = with_tools(cast, "a-bare", "uv")
    able = with_tools(cast, "b-able", "uv", "podman")

    def answer() -> Placed | Waiting:
        rooms = rooms_of(list(Node.objects.select_related("cluster").order_by("name")), timezone.now())
        return Ahead(cast.cluster, rooms, timezone.now()).prospect(request_of(NEW, in_container()))[0]

    found = answer()
    assert isinstance(found, Placed) and [part.node for part in found.parts] == [able.pk]
    assert likely_nodes(parse_spec(in_container()), [bare, able]) == [able]
    Node.objects.filter(pk=able.pk).update(is_draining=True)
    found = answer()
    assert isinstance(found, Waiting)
    assert found.sentence.endswith("b-able is draining; a-bare is without Podman, which its container needs.")


def test_a_launch_is_refused_where_the_nodes_with_podman_can_never_hold_it(cast: Cast) -> None:
    with_tools(cast, "a-bare", "uv")
    words = "which it needs: install it there, or leave it out"
    assert why_refused(cast, in_container()) == [f"environment.container: no node of cluster local has Podman, {words}"]
    with_tools(cast, "b-able", "uv", "podman")
    assert why_refused(cast, in_container()) == []
    (why,) = why_refused(cast, in_container(resources={"nodes": 2}))
    assert why.startswith(
        f"environment.container: only 1 of the 2 nodes of cluster local has Podman, {words}. Of these"
    )
    assert "resources.nodes 2 is more than this cluster has" in why

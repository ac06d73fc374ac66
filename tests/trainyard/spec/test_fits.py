"""Whether a cluster could ever hold a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from trainyard.spec import check_fits, check_room, parse_spec


def spec(nodes: int, each: int, accelerator: str = "auto") -> Any:
    resources = {"nodes": nodes, "processes_per_node": each, "accelerator": accelerator}
    return parse_spec({"name": "x", "task": {"script": "a.py"}, "resources": resources})


class Room(NamedTuple):
    slots: int
    accelerator: str


def cluster(*slots: int, accelerator: str = "cpu") -> list[Room]:
    return [Room(count, accelerator) for count in slots]


MIXED = cluster(4, 4) + cluster(8, 8, 8, accelerator="gpu")


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [
        (spec(1, 1), cluster(1)),
        (spec(2, 2), cluster(2, 4)),
        (spec(3, 8), MIXED),
        (spec(2, 4, "cpu"), MIXED),
        (spec(100, 100), []),
    ],
)
def test_it_fits(asked: Any, nodes: list[Room]) -> None:
    assert check_fits(asked, nodes) == []


@pytest.mark.parametrize(
    ("asked", "nodes", "path", "sentence"),
    [
        (spec(3, 1), cluster(4, 4), "resources.nodes", "3 is more than this cluster has: 2 nodes with 1 slot or more"),
        (spec(2, 3), cluster(4, 2), "resources.nodes", "1 nodes with 3 slots"),
        (spec(1, 5), cluster(4, 2), "resources.processes_per_node", "at most 4 slots"),
        (spec(1, 1, "gpu"), cluster(4), "resources.accelerator", "gpu is on none of the 1 nodes"),
        (spec(3, 1, "cpu"), MIXED, "resources.nodes", "2 cpu nodes"),
        (spec(4, 1), MIXED, "resources.nodes", "3 nodes of one kind (cpu or gpu)"),
    ],
)
def test_it_can_never_fit(asked: Any, nodes: list[Room], path: str, sentence: str) -> None:
    [problem] = check_fits(asked, nodes)
    assert problem.path == path and sentence in problem.message


@pytest.mark.parametrize("resources", [{"nodes": "many"}, {"nodes": 1}, [1], "x", None])
def test_of_a_document_that_is_no_spec_only_its_resources_count(resources: Any) -> None:
    assert check_room(resources, cluster(1)) == []
    [problem] = check_room({"nodes": 5}, cluster(1))
    assert problem.path == "resources.nodes"

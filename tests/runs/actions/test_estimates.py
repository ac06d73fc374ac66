"""When a spec would start before it is launched, and which smaller shapes would start sooner."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from runs.actions.estimates import Start, start_of
from runs.models import Node, Project, Run
from runs.placing.fitting import Placed, Waiting
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
PER_NODE = "resources.processes_per_node"


def start(cast: Cast, processes: int = 4, *, nodes: int = 1, **changes: Any) -> Start:
    document = spec(**{"resources": {"nodes": nodes, "processes_per_node": processes}, **changes})
    registered = list(Node.objects.select_related("cluster").order_by("name"))
    return start_of(cast.mate, parse_spec(document), cast.cluster, registered, timezone.now())


def busy(cast: Cast, node: Node, ranks: int, **changes: Any) -> Run:
    """A run that holds so many slots of the node, for two hours unless told otherwise."""
    values = {"limit_s": 7_260.0, "num_nodes": 1, "slots_per_node": ranks, **changes}
    run = make_run(cast, name="busy", status=Status.RUNNING, **values)  # since a minute
    make_attempt(run, [node], ranks=ranks)
    return run


def test_a_run_that_fits_starts_at_once_and_no_smaller_shape_is_looked_at(cast: Cast) -> None:
    node = make_node(cast.cluster, slots=4)
    found = start(cast)
    assert isinstance(found.answer, Placed) and found.answer.parts[0].node == node.pk
    assert (found.starts, found.smaller, found.at) == (None, [], None)


def test_half_the_copies_start_at_once_where_the_whole_run_waits(cast: Cast) -> None:
    busy(cast, make_node(cast.cluster, slots=4), 2)
    found = start(cast)
    assert isinstance(found.answer, Waiting) and found.answer.sentence.startswith("Waiting for 2 more CPU slots")
    assert found.starts is not None and found.at is not None
    assert 715 < found.starts.low <= found.starts.expected <= found.starts.high < 7_205
    assert found.at.expected - timezone.now().timestamp() == pytest.approx(found.starts.expected, abs=5)
    assert [(one.changes, one.num_ranks, one.starts.expected) for one in found.smaller] == [({PER_NODE: 2}, 2, 0.0)]


def test_a_quarter_is_named_where_half_starts_no_sooner(cast: Cast) -> None:
    busy(cast, make_node(cast.cluster, slots=4), 3)
    assert [one.changes for one in start(cast).smaller] == [{PER_NODE: 1}]


def test_nodes_are_halved_before_processes(cast: Cast) -> None:
    for _ in range(2):
        busy(cast, make_node(cast.cluster, slots=4), 2)
    found = start(cast, 3, nodes=2, train={"steps": 300, "batch_size": 36})
    assert all(one.changes == {"resources.nodes": 1} for one in found.smaller), "three processes are no pair"
    found = start(cast, 4, nodes=2)
    assert found.smaller[-1].changes == {"resources.nodes": 1, PER_NODE: 2} and not found.smaller[-1].starts.high


def test_a_fixed_degree_is_halved_with_its_ranks(cast: Cast) -> None:
    busy(cast, make_node(cast.cluster, slots=4), 2)
    (one,) = start(cast, parallel={"data": 4}).smaller
    assert one.changes == {PER_NODE: 2, "parallel.data": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"task": {"script": "train.py", "code": {"sha256": "0" * 64}}, "train": None},
        {"parallel": {"tensor": 4}},
        {"resources": {"nodes": {"min": 1, "max": 2}, "processes_per_node": 4}},
    ],
    ids=["script", "one copy", "elastic"],
)
def test_what_has_no_copies_to_spare_has_no_smaller_shape(cast: Cast, changes: dict[str, Any]) -> None:
    busy(cast, make_node(cast.cluster, slots=4), 2)
    document = {name: value for name, value in {**spec(), **changes}.items() if value is not None}
    document.setdefault("resources", {})
    if "resources" not in changes:
        document["resources"] = {"nodes": 1, "processes_per_node": 4}
    nodes = list(Node.objects.select_related("cluster"))
    found = start_of(cast.mate, parse_spec(document), cast.cluster, nodes, timezone.now())
    assert isinstance(found.answer, Waiting) and found.smaller == []


def test_of_a_run_behind_one_that_nobody_can_tell_the_end_of_only_what_starts_at_once_is_said(cast: Cast) -> None:
    busy(cast, make_node(cast.cluster, slots=4), 2, limit_s=None)
    found = start(cast)
    assert found.starts is None and [one.num_ranks for one in found.smaller] == [2]
    make_run(cast, name="ahead", num_nodes=1, slots_per_node=4, accelerator="auto")
    assert start(cast).smaller == [], "the run ahead has a claim on the free slots"


def test_a_short_run_is_told_that_it_may_pass_the_one_that_waits(cast: Cast) -> None:
    busy(cast, make_node(cast.cluster, slots=4), 2)
    make_run(cast, name="ahead", num_nodes=1, slots_per_node=4, accelerator="auto")
    assert isinstance(start(cast, 2).answer, Placed), "by its plan it is over by then"
    long = start(cast, 2, train={"steps": 100_000_000, "batch_size": 32})
    assert isinstance(long.answer, Waiting)


def test_a_limit_of_the_project_is_said_and_what_is_within_it(cast: Cast) -> None:
    Project.objects.update(slots=3)
    make_node(cast.cluster, slots=4)
    found = start(cast)
    assert isinstance(found.answer, Waiting) and "may hold 3 slots at once" in found.answer.sentence
    assert [one.num_ranks for one in found.smaller] == [2]

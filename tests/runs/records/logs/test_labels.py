"""Labels of lines where they are read: beside a line, as a filter, and counted as the nodes report."""

from __future__ import annotations

from typing import Any

import pytest

from runs.models import Run
from runs.records.logs.labels import counts_of, label_lines, pattern_of
from tests.cast import Cast, make_attempt, make_node, make_run, spec

pytestmark = pytest.mark.django_db
RULE = {"label": "slow-disk", "pattern": "nfs: server .* gone", "action": "notify"}


@pytest.fixture
def run(cast: Cast) -> Run:
    cast.cluster.log_rules = [
        {"label": "retry", "pattern": r"retry \d+", "action": "label"},
        {**RULE, "pattern": "never"},
    ]
    cast.cluster.save()
    return make_run(cast, spec=spec(log_rules=[RULE]))


def labels(run: Run, *texts: str) -> list[Any]:
    items: Any = [{"text": text} for text in texts]
    label_lines(run, items)
    return [item.get("labels") for item in items]


def test_lines_get_the_labels_of_spec_cluster_and_trainyard(run: Run) -> None:
    assert labels(run, "fine", "nfs: server a gone, retry 3", "OSError: [Errno 28] No space left on device") == [
        None,
        ["slow-disk", "retry"],
        ["disk-full"],
    ]
    assert labels(run) == []


def test_a_label_stands_for_the_expression_of_its_rules(run: Run) -> None:
    assert pattern_of(run, "slow-disk") == "(?:nfs: server .* gone)"  # the spec's, not the cluster's
    assert pattern_of(run, "retry") == r"(?:retry \d+)"
    assert "No space left" in str(pattern_of(run, "disk-full"))
    assert pattern_of(run, "nothing") is None


def test_counts_are_those_of_the_nodes(run: Run, cast: Cast) -> None:
    attempt = make_attempt(run, [make_node(cast.cluster), make_node(cast.cluster)])
    for placement, count in zip(attempt.placements.all(), (3, 4), strict=True):
        placement.report = {"matches": [{"label": "retry", "rank": 0, "count": count}]}
        placement.save()
    assert counts_of(run) == {"retry": 7}
    assert counts_of(run, attempt.fence) == {"retry": 7} and counts_of(run, 99) == {}

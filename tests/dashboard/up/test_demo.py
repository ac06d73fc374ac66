"""The example of `make demo` fits the nodes that there are."""

from __future__ import annotations

import pytest

from dashboard.up.__main__ import document_for
from trainyard.spec.parse import parse_spec


@pytest.mark.parametrize(("num_nodes", "wanted"), [(1, 1), (2, 2), (5, 2)])
def test_the_example_runs_on_the_nodes_that_there_are(num_nodes: int, wanted: int) -> None:
    assert parse_spec(document_for(num_nodes)).resources.nodes == wanted

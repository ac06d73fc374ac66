"""A notebook in the place of a script: what goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, parse_spec

NOTEBOOK: dict[str, Any] = {"name": "x", "task": {"notebook": True}}


def test_a_notebook_is_one_process_of_the_node() -> None:
    assert parse_spec(NOTEBOOK).resolved()["limits"]["idle"]


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"resources": {"nodes": 2}}, "resources.nodes", "2 x 1 ranks are no notebook's"),
        ({"resources": {"processes_per_node": 2}}, "resources.processes_per_node", "1 x 2 ranks are no notebook's"),
        ({"environment": {"container": "jupyter:1"}}, "environment.container", "a notebook runs in no container"),
        ({"task": {"notebook": True, "arguments": ["x"]}}, "task.arguments", "a notebook has none"),
    ],
)
def test_a_notebook_refuses(changes: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_spec({**NOTEBOOK, **changes})
    assert message in {one.path: one.message for one in refused.value.errors}[path]

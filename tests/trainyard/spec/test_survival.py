from __future__ import annotations

import pytest

from trainyard.spec import parse_spec
from trainyard.spec.sections.parallel import outlives_workers

RECIPE = {"name": "one", "resources": {"nodes": 2}, "task": {"recipe": "language-model"}}


@pytest.mark.parametrize("kind", ["every-step", "local-sgd", "diloco", "parameter-server"])
def test_only_a_parameter_server_outlives_its_workers(kind: str) -> None:
    spec = parse_spec({**RECIPE, "parallel": {"synchronization": {"kind": kind}}}).resolved()
    assert outlives_workers(spec) == (kind == "parameter-server")


@pytest.mark.parametrize("spec", [{}, {"task": {"script": "train.py"}}, {"parallel": {}}, {"parallel": None}])
def test_a_spec_that_says_nothing_of_it_does_not(spec: dict[str, object]) -> None:
    assert not outlives_workers(spec)

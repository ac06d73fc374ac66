"""JAX by its own name: a training of two processes on two nodes, which find each other by its coordinator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.systems.scripts import lines, run
from tests.whole.runs import Yard


@pytest.mark.timeout(900)
def test_two_processes_on_two_nodes_average_their_gradients(yard: Yard, tmp_path: Path) -> None:
    said = lines(yard, run(yard, "jax", tmp_path))
    steps = [re.fullmatch(r"step (\d+) of 100: loss (\S+)", line) for line in said if line.startswith("step ")]
    assert [one[1] for one in steps if one] == ["25", "50", "75", "100"]
    assert any(re.fullmatch(r"2 processes found y = (2\.99|3\.00)\d x \+ -(0\.99|1\.00)\d", line) for line in said)

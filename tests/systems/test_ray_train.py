"""Ray Train in a Ray that its script starts for itself, in the environment and the sandbox of a rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.scripts import lines, run
from tests.whole.runs import Yard


@pytest.mark.timeout(3600)
def test_two_workers_of_its_own_ray_average_their_gradients(yard: Yard, tmp_path: Path) -> None:
    said = lines(yard, run(yard, "ray-train", tmp_path))
    assert any("2 workers found y = 3.000 x + -1.000, loss 0.000000" in line for line in said), said[-40:]

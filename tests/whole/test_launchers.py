"""Examples of other launchers than torchrun, from the command line on two nodes: their ranks find each other."""

from __future__ import annotations

import re

import pytest

from tests.up_process import Up
from tests.whole.runs import Yard
from tests.whole.test_command_line import trainyard

# Minutes: the nodes install JAX. TensorFlow's wheels are several times as large, and its example does not run here.
pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]
WORDS = {
    "mpi": r"rank 0 of 2, local 0: 1",
    "jax": r"2 processes found y = (2\.99|3\.0)\d* x \+ -(0\.99|1\.0)\d*",
}


@pytest.mark.parametrize("name", WORDS)
def test_an_example_of_another_launcher_meets_its_other_rank(running_trainyard: Up, yard: Yard, name: str) -> None:
    submitted = trainyard(running_trainyard, "submit", f"examples/{name}.yaml")
    assert submitted.returncode == 0, submitted.stderr
    run = yard.wait_for_end(submitted.stdout.strip(), 800)
    assert run["status"] == "SUCCEEDED", run["reason"]
    lines = [line["text"] for line in yard.get(f"/runs/{run['id']}/logs", limit=1000)["items"]]
    assert any(re.fullmatch(WORDS[name], line) for line in lines), lines

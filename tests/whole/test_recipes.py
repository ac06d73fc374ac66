"""The recipes on their built-in data, from the command line on two nodes, to the quality that their examples state."""

from __future__ import annotations

import pytest

from tests.up_process import Up
from tests.whole.runs import Yard
from tests.whole.test_command_line import trainyard

# More than is stated for accuracy: over seeds both reach 0.96 and more.
STATED = {"digits": 0.95, "breast-cancer": 0.94}


@pytest.mark.parametrize("name", ["digits", pytest.param("breast-cancer", marks=pytest.mark.extended)])
def test_an_example_reaches_the_stated_accuracy(running_trainyard: Up, yard: Yard, name: str) -> None:
    submitted = trainyard(running_trainyard, "submit", f"examples/{name}.yaml", "--wait")
    assert submitted.returncode == 0, submitted.stderr
    run = yard.run(submitted.stdout.strip())
    assert run["status"] == "SUCCEEDED" and run["summary"]["val/accuracy"]["last"] > STATED[name]
    assert run["summary"]["train/samples_per_second"]["last"] > 0
    assert len(yard.steps(run["id"], "rank/memory_bytes")) == 2, "one rank on each of two nodes"

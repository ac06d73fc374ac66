"""A script for Horovod with its import unchanged, on two nodes: horovod.torch is Trainyard's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.systems.scripts import lines, run
from tests.whole.runs import Yard


@pytest.mark.timeout(900)
@pytest.mark.parametrize("arguments", [["--epochs", "6"], ["--epochs", "6", "--fp16-allreduce"]])
def test_two_nodes_learn_to_read_digits(yard: Yard, tmp_path: Path, arguments: list[str]) -> None:
    said = lines(yard, run(yard, "horovod", tmp_path, task={"arguments": arguments}))
    epochs = [re.fullmatch(r"epoch (\d)/6  read right (\S+)", line) for line in said if line.startswith("epoch ")]
    assert [one[1] for one in epochs if one] == ["1", "2", "3", "4", "5", "6"], said
    assert epochs[-1] is not None and float(epochs[-1][2]) > 0.9

"""Accelerate with its FSDP and its DeepSpeed plug-in, as scripts on two nodes, beside the same training without one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.systems.scripts import lines, run
from tests.whole.runs import Yard

pytestmark = pytest.mark.timeout(3600)

EPOCHS = ["--epochs", "3", "--batch-size", "32"]
EPOCH = re.compile(r"epoch (\d)/3  loss (\S+)  test accuracy (\S+)")
NEEDS_GCC = pytest.mark.skipif(not shutil.which("g++"), reason="DeepSpeed compiles its operators: there is no g++ here")


@pytest.mark.parametrize(
    # Without a GPU Accelerate leaves its FSDP plug-in out, and says so nowhere.
    ("plug_in", "kind"),
    [("fsdp", "MULTI_CPU"), pytest.param("deepspeed", "DEEPSPEED", marks=NEEDS_GCC)],
)
def test_a_plug_in_learns_what_accelerate_learns_without_one(
    yard: Yard, tmp_path: Path, plug_in: str, kind: str
) -> None:
    done = [
        run(yard, "accelerate", tmp_path, task={"arguments": EPOCHS}),
        run(yard, f"accelerate-{plug_in}", tmp_path, task={"arguments": [*EPOCHS, "--shard", plug_in]}),
    ]
    plain, said = (lines(yard, run_id, rank=0) for run_id in done)  # one rank of each node prints
    assert f"2 processes, DistributedType.{kind}" in said
    found, wanted = ([EPOCH.fullmatch(line) for line in text if line.startswith("epoch ")] for text in (said, plain))
    assert [one[1] for one in found if one] == ["1", "2", "3"]
    for one, other in zip(found, wanted, strict=True):
        assert one is not None and other is not None
        assert float(one[2]) == pytest.approx(float(other[2]), abs=2e-4), (said, plain)
        assert float(one[3]) == pytest.approx(float(other[3]), abs=0.01)

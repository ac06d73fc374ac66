"""The scripts of examples/, unmodified, on a real node: what each prints, as the run's log has it."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.workers.control import ControlledNode
from trainyard.bundle import pack
from trainyard.contract.base import JsonObject
from trainyard.spec import load_spec_file, parse_spec

EXAMPLES = Path(__file__).parents[3] / "examples"
EXAMPLES_OF_DIGITS = ["ddp", *(pytest.param(name, marks=pytest.mark.extended) for name in ("accelerate", "lightning"))]
# JAX is installed by the node. What is larger, or needs two nodes, is in tests/systems.
LAUNCHERS = {"mpi": r"rank 0 of 2, local 0: 1", "jax": r"2 processes found y = (2\.99|3\.0)\d* x \+ -(0\.99|1\.0)\d*",
             "horovod": r"epoch 12/12  read right 0\.9\d\d"}  # fmt: skip
DIGITS = ["--epochs", "3", "--batch-size", "32"]


def run(node: ControlledNode, name: str, **task: Any) -> tuple[list[str], JsonObject]:
    """Run the example's spec with changes to its task, its two ranks on one node; return its lines and the report."""
    spec = parse_spec(load_spec_file(EXAMPLES / f"{name}.yaml")).resolved()
    data, sha256, _ = pack(EXAMPLES / spec["task"]["code"])
    (node.home / "cache" / "bundles" / sha256).write_bytes(data)
    code = {"sha256": sha256, "size_bytes": len(data)}
    order = node.order(ranks=2, spec={**spec, "task": {**spec["task"], **task}}, code=code)
    node.launch(order)
    report = node.wait_for(order, "ended")
    assert report["reason"] is None, report
    node.wait_until_shipped(order)
    return node.lines(order), {**report, "output": node.folder(order["attempt"]).output}


@pytest.mark.parametrize("name", EXAMPLES_OF_DIGITS)
def test_a_frameworks_script_learns_to_read_digits_on_two_ranks(calm_node: ControlledNode, name: str) -> None:
    lines, report = run(calm_node, name, arguments=DIGITS)
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/3", "2/3", "3/3"]  # by one of the ranks alone
    assert float(epochs[-1].split()[-1]) > 0.8, epochs
    assert [rank["group"] for rank in report["ranks"]] == ["joined", "joined"]


def test_a_sharded_script_holds_half_of_its_weights_on_each_rank_and_keeps_a_checkpoint(
    calm_node: ControlledNode,
) -> None:
    lines, report = run(calm_node, "fsdp2", arguments=["--steps", "50"])
    found = re.search(r"holds ([\d,]+) of ([\d,]+) weights", lines[0])
    assert found is not None, lines
    own, every = (int(number.replace(",", "")) for number in found.groups())
    assert 0.45 * every < own < 0.55 * every
    assert lines[-1] == "kept step 50 in checkpoint.pt"
    assert (report["output"] / "checkpoint.pt").stat().st_size > 1_000_000


@pytest.mark.extended
def test_a_script_in_an_environment_of_its_own_meets_its_other_ranks(
    calm_node: ControlledNode, own_environment: Path
) -> None:
    [packages] = (own_environment / "lib").glob("python3*/site-packages")
    (packages / "torch_of_the_session.pth").write_text(sysconfig.get_path("purelib"))
    lines, _ = run(calm_node, "own-venv", python=str(own_environment / "bin" / "python"))
    assert f" of {own_environment}, torch " in lines[0]
    assert lines[1] == "found y = 3.000 x + -1.000, loss 0.000000"


@pytest.mark.extended
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "words"), LAUNCHERS.items())
def test_ranks_of_another_launcher_find_each_other(calm_node: ControlledNode, name: str, words: str) -> None:
    lines, _ = run(calm_node, name)
    assert any(re.fullmatch(words, line) for line in lines), lines


def test_no_example_of_a_framework_knows_of_trainyard() -> None:
    for name in ("ddp", "fsdp2", "accelerate", "lightning", "own-venv"):
        assert "import trainyard" not in (EXAMPLES / name / "train.py").read_text()

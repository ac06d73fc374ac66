"""DeepSpeed by its real name: its ZeRO stages on two nodes beside plain DistributedDataParallel, the operators that it
compiles, and its checkpoints when a rank is killed. `make systems`: the nodes install DeepSpeed themselves."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.systems.scripts import LIMIT_S, files, lines, losses, run, submit
from tests.whole.runs import Yard

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not shutil.which("g++"), reason="DeepSpeed compiles its operators: this machine has no g++"),
]

STEPS = 20
MOST_APART = 1e-5
# The same network, rows and seed without DeepSpeed, on the node's own torch.
PLAIN = f"""
import torch
import torch.distributed as dist
from net import Sorter, rows
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Sorter())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for step in range(1, {STEPS} + 1):
        digits, wanted = rows(step, rank, world_size, 64)
        loss = nn.functional.cross_entropy(model(digits), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {{step}}/{STEPS}  loss {{mean.item() / world_size:.6f}}", flush=True)


dist.init_process_group("gloo")
train()
dist.destroy_process_group()
"""


def arguments(stage: int, *more: str) -> list[str]:
    folders = ["--save", "${TRAINYARD_CHECKPOINTS}", "${TRAINYARD_OUTPUT}"]
    return ["--deepspeed_config", f"zero{stage}.json", *folders, *more]


@pytest.fixture(scope="module")
def plain() -> dict[int, float]:
    """Filled by the first who asks: the losses of plain DistributedDataParallel by step."""
    return {}


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_stage_trains_as_plain_data_parallelism_does(
    yard: Yard, tmp_path: Path, plain: dict[int, float], stage: int
) -> None:
    if not plain:
        changes = {"task": {"script": "plain.py", "arguments": []}, "environment": None}
        done = run(yard, "deepspeed", tmp_path, {"plain.py": PLAIN}, **changes)
        plain.update({step: value for step, [value] in losses(lines(yard, done)).items()})
        assert sorted(plain) == list(range(1, STEPS + 1))
    done = run(yard, "deepspeed", tmp_path, task={"arguments": arguments(stage, "--steps", str(STEPS))})
    said = lines(yard, done)
    assert f"2 processes, ZeRO stage {stage}, from step 1" in said
    found = {step: value for step, [value] in losses(said).items()}
    assert found.keys() == plain.keys()
    apart = {step: abs(found[step] - plain[step]) for step in plain}
    print(
        f"\nZeRO stage {stage}: at most {max(apart.values()):.1e} apart from DistributedDataParallel in {STEPS} steps"
    )
    assert max(apart.values()) <= MOST_APART, (found, plain)

    kept = {f"step{STEPS}/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1)}
    yard.wait_for(lambda: kept <= files(yard, done), lambda: f"its checkpoint is not listed: {files(yard, done)}")


def compiled(yard: Yard) -> dict[str, int]:
    """Return when each module that torch compiled on the nodes was written."""
    pattern = "nodes/*/cache/projects/default/user/torch_extensions/**/*"
    found = [path for path in yard.up.home.glob(pattern) if path.suffix in (".so", ".o")]
    return {str(path.relative_to(yard.up.home)): path.stat().st_mtime_ns for path in found}


def test_its_operators_are_compiled_once_for_a_node(yard: Yard, tmp_path: Path) -> None:
    task = {"arguments": arguments(2, "--steps", "2")}
    run(yard, "deepspeed", tmp_path, task=task)
    before = compiled(yard)
    nodes = {name.split("/")[1] for name in before if name.endswith("/cpu_adam.so")}
    assert nodes == {"local-1", "local-2"}, before
    run(yard, "deepspeed", tmp_path, task=task)
    assert compiled(yard) == before


def test_a_run_whose_rank_is_killed_goes_on_from_its_checkpoint(yard: Yard, tmp_path: Path) -> None:
    more = ("--steps", "600", "--save-every", "100")
    run_id = submit(yard, "deepspeed", tmp_path, task={"arguments": arguments(2, *more)})
    yard.wait_for(lambda: "kept step 100" in lines(yard, run_id), lambda: str(lines(yard, run_id)[-20:]), LIMIT_S)
    placements = yard.attempts(run_id)[0]["placements"]
    os.kill(next(rank["pid"] for place in placements for rank in place["ranks"] if rank["rank"] == 1), signal.SIGKILL)
    ended = yard.wait_for_end(run_id, LIMIT_S)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2), ended["reason"]

    said = lines(yard, run_id)
    [first] = [int(line.rsplit(" ", 1)[1]) for line in said if ", from step " in line and not line.endswith(" 1")]
    assert first > 100 and first % 100 == 1, "it goes on behind a checkpoint"
    found = losses(said)
    assert sorted(found) == list(range(1, 601)), "no step is missing"
    again = {step: values for step, values in found.items() if len(values) == 2}
    print(f"\nkilled in step {max([*again, first - 1])}, went on from step {first}: {len(again)} steps trained again")
    assert all(step >= first and abs(values[0] - values[1]) <= MOST_APART for step, values in again.items()), again
    kept = {"latest", "step600/zero_pp_rank_1_mp_rank_00_optim_states.pt"}
    yard.wait_for(lambda: kept <= files(yard, run_id), lambda: f"its checkpoint is not listed: {files(yard, run_id)}")

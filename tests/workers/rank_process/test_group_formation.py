"""What a node tells of a script's ranks and their process group."""

from __future__ import annotations

import sys

from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject

MEETS = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
init_device_mesh("cpu", (2,))
dist.barrier()
dist.destroy_process_group()
"""
ONE_WAITS = """
import os, time
import torch.distributed as dist
if os.environ["RANK"] == "0":
    dist.init_process_group("gloo")
"""
FORGETS = """
import torch
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(torch.nn.Linear(1, 1))
"""


def groups(report: JsonObject) -> list[str]:
    return [rank["group"] for rank in report["ranks"]]


def test_ranks_that_meet_are_seen_to_whoever_forms_the_group(calm_node: ControlledNode) -> None:
    order = calm_node.order(MEETS, ranks=2)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert report["reason"] is None and groups(report) == ["joined", "joined"]


def test_ranks_that_never_look_for_each_other_are_told_of(calm_node: ControlledNode) -> None:
    order = calm_node.order("print(1)", ranks=2)
    calm_node.launch(order)
    assert groups(calm_node.wait_for(order, "ended")) == ["none", "none"]


def test_of_a_cold_rank_nothing_is_known(calm_node: ControlledNode) -> None:
    spec = {"task": {"script": "train.py", "python": sys.executable}}
    order = calm_node.order("raise ValueError('no data')", spec=spec)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert groups(report) == ["unknown"]
    assert report["reason"]["sentence"] == "Rank 0 on calm failed with ValueError: no data"


def test_of_cold_ranks_it_is_seen_whether_rank_0_opened_the_port(calm_node: ControlledNode) -> None:
    spec = {"task": {"script": "train.py", "python": sys.executable}}
    seen = []
    # The port is looked at every 0.1 s.
    stays = MEETS.replace("dist.destroy", "import time; time.sleep(0.5)\ndist.destroy")
    for script in (stays, "print('Unable to locate sufficient 2 gpus to run this example. Exiting.')"):
        order = calm_node.order(script, ranks=2, spec=spec)
        calm_node.launch(order)
        report = calm_node.wait_for(order, "ended")
        assert report["reason"] is None, report
        seen.append([rank["has_listened"] for rank in report["ranks"]])
    assert seen == [[True, None], [False, None]]


def test_a_rank_that_waits_is_told_of_with_since_when_and_is_not_killed(calm_node: ControlledNode) -> None:
    order = calm_node.order(ONE_WAITS, ranks=2)
    calm_node.launch(order)

    def waits() -> JsonObject | None:
        calm_node.tick()
        report = calm_node.report(order) or {"ranks": []}
        return report if groups(report) == ["waiting", "none"] and report["ranks"][1]["exit_code"] == 0 else None

    report = until(waits)
    waiting = report["ranks"][0]
    assert waiting["ended_at"] is None
    assert waiting["started_at"] - 1 <= waiting["waiting_since"] <= report["at"]
    calm_node.say(order, wanted="stop")
    calm_node.wait_for(order, "ended")


def test_a_script_that_forgot_its_process_group_fails_with_the_line_and_what_to_do(calm_node: ControlledNode) -> None:
    order = calm_node.order(FORGETS)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert report["reason"]["sentence"] == (
        "Rank 0 on calm failed with ValueError: "
        "train.py line 5: model = DistributedDataParallel(torch.nn.Linear(1, 1)) "
        "needs a process group, and the process group was never initialised: call "
        "torch.distributed.init_process_group() before it."
    )
    assert "Default process group has not been initialized" in report["ranks"][0]["error"]["traceback"]


ENDS_OFTEN = """
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train(round):
    where = f"file://{os.environ['TRAINYARD_OUTPUT']}/store-{round}"
    dist.init_process_group("gloo", init_method=where, rank=int(os.environ["RANK"]), world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        model(torch.rand(32, 20)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()  # the model still holds the group; it goes as the function ends

for round in range(60):
    train(round)
time.sleep(1.1)
train(60)
print("over", len(os.listdir("/proc/self/task")))
"""


def test_a_model_that_outlives_its_process_group_does_not_hang_the_rank(calm_node: ControlledNode) -> None:
    """Its end would join gloo's thread with the interpreter's lock held, for which that thread may wait."""
    order = calm_node.order(ENDS_OFTEN, ranks=2)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert [rank["exit_code"] for rank in report["ranks"]] == [0, 0], report["reason"]
    calm_node.wait_until_shipped(order)
    lines = calm_node.lines(order)
    assert len(lines) == 2 and all(int(line.split()[1]) < 20 for line in lines), lines  # groups do not pile up

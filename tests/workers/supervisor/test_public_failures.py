"""How public scripts fail, and what is said of it: each is a script of two ranks, and the cause that is found."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

import pytest

from runs.causes import PlacementState, cause_of, failures_of
from runs.values.status import Phase
from tests.workers.control import ControlledNode
from trainyard.contract.base import convert
from trainyard.contract.causes import Cause
from trainyard.contract.reports import AttemptReport

JOIN = "import os, torch, torch.distributed as dist\nrank = int(os.environ['RANK'])\ndist.init_process_group('gloo')\n"
UNEVEN = """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
for number in range(20 if rank == 0 else 5):
    model(torch.ones(2, 4)).sum().backward()
os._exit(0)
"""


class Situation(NamedTuple):
    script: str
    rank: int
    words: str
    consequence: str = ""
    is_port_taken: bool = False


SITUATIONS = {
    "another program holds MASTER_PORT": Situation(JOIN, 0, "found its port taken (", is_port_taken=True),
    "one rank has fewer batches": Situation(
        JOIN + UNEVEN, 1, "ended with exit code 0 while others still needed it.", "Rank 0 on {node} lost its connection"
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_cause_names_the_rank_and_what_befell_it(calm_node: ControlledNode, name: str) -> None:
    situation = SITUATIONS[name]
    with socket.create_server(("127.0.0.1", 0)) as others:
        more = {"master_port": others.getsockname()[1]} if situation.is_port_taken else {}
        order = calm_node.order(situation.script, ranks=2)
        calm_node.launch(order, **more)
        cause = cause_in(calm_node.wait_for(order, "ended"), calm_node.name)
    assert cause.sentence.startswith(f"Rank {situation.rank} on {calm_node.name} "), cause.sentence
    assert situation.words in cause.sentence
    felt = " ".join(one.sentence for one in cause.consequences)
    assert situation.consequence.format(node=calm_node.name) in felt


def cause_in(report: Any, node: str) -> Cause:
    shown: dict[str, Any] = {"phase": Phase.ENDED, "silent_s": 0.0, "is_answering": True, "is_listed": True}
    part = PlacementState(node=node, report=convert(report, AttemptReport), num_ranks=2, **shown)
    return cause_of(failures_of([part]), [part])[1]

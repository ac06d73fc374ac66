"""Ranks of one attempt on several nodes find each other."""

from __future__ import annotations

import secrets

from tests.workers.control import ControlledNode

SUM = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print("sum", total.item(), "of", dist.get_world_size())
dist.destroy_process_group()
"""


def test_two_nodes_with_two_ranks_each_add_up(two_nodes: list[ControlledNode]) -> None:
    attempt = secrets.token_hex(6)
    shared = {"attempt": attempt, "run": "gang", "num_nodes": 2, "world_size": 4}
    orders = [
        node.order(SUM, ranks=2, **shared, node_rank=number, first_rank=2 * number)
        for number, node in enumerate(two_nodes)
    ]
    for node, order in zip(two_nodes, orders, strict=True):
        node.say(order)
    ready = [node.wait_for(order, "ready") for node, order in zip(two_nodes, orders, strict=True)]
    go = {"master_addr": ready[0]["address"], "master_port": ready[0]["port"]}
    for node, order in zip(two_nodes, orders, strict=True):  # without a command: the document alone does it
        node.say(order, wanted="run", go=go)
    for node, order in zip(two_nodes, orders, strict=True):
        report = node.wait_for(order, "ended")
        assert report["reason"] is None, report
        assert [rank["rank"] for rank in report["ranks"]] == [order["first_rank"], order["first_rank"] + 1]
        printed = [node.folder(attempt).stream_path(rank["rank"], "stdout").read_text() for rank in report["ranks"]]
        assert printed == ["sum 10.0 of 4\n"] * 2

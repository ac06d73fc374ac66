"""Ranks that others outlive: what the supervisor does when one dies, with real processes and SIGKILL."""

from __future__ import annotations

import os
import secrets
import signal

import pytest

from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from trainyard.spec import parse_spec

# Each rank says that it is there; told to finish by a file in its code folder, it ends with 0.
WORKER = """
import os, pathlib, sys, time
rank = os.environ["RANK"]
if os.environ.get("MUST_JOIN"):
    pathlib.Path(os.environ["TRAINYARD_JOINED"]).touch()
print("rank", rank, flush=True)
while not pathlib.Path(f"finish-{rank}").exists():
    time.sleep(0.02)
"""
KIND = {"synchronization": {"kind": "parameter-server"}}


def order_of(node: ControlledNode, *, ranks: int = 2, kind: JsonObject = KIND, joins: bool = True) -> JsonObject:
    order = node.order(WORKER, ranks=ranks)
    order["spec"] = {**order["spec"], "parallel": kind}
    order["spec"]["task"]["environment"] = {"MUST_JOIN": "1"} if joins else {}
    return order


def started(node: ControlledNode, order: JsonObject) -> list[int]:
    """Launch it and return the pids of its ranks once each has come to its loop."""
    node.launch(order)
    ranks = node.wait_for(order, "running")["ranks"]
    folder = node.folder(order["attempt"])
    for rank in ranks:
        printed = folder.stream_path(rank["rank"], "stdout")
        until(lambda printed=printed: printed.exists() and "rank" in printed.read_text())  # type: ignore[misc]
    return [rank["pid"] for rank in ranks]


def kill_and_wait(node: ControlledNode, order: JsonObject, pid: int) -> JsonObject:
    """Kill a rank and return the report that says so."""
    os.kill(pid, signal.SIGKILL)

    def told() -> JsonObject | None:
        report = node.report(order)
        ended = report and any(rank["pid"] == pid and rank["ended_at"] is not None for rank in report["ranks"])
        return report if ended else None

    report: JsonObject = until(told)
    return report


def finish(node: ControlledNode, order: JsonObject, rank: int) -> JsonObject:
    (node.folder(order["attempt"]).code / f"finish-{rank}").touch()
    return node.wait_for(order, "ended")


def test_a_worker_may_die_and_the_others_go_on_to_their_end(calm_node: ControlledNode) -> None:
    order = order_of(calm_node)
    first, second = started(calm_node, order)
    report = kill_and_wait(calm_node, order, second)
    assert report["phase"] == "running"
    assert (report["ranks"][1]["signal"], report["ranks"][1]["has_joined"]) == (9, True)
    os.kill(first, 0)
    report = finish(calm_node, order, 0)
    assert [(rank["exit_code"], rank["signal"]) for rank in report["ranks"]] == [(0, None), (None, 9)]
    assert report["reason"]["code"] == "rank_killed"


def test_a_stop_still_ends_those_that_are_left(calm_node: ControlledNode) -> None:
    order = order_of(calm_node)
    _, second = started(calm_node, order)
    kill_and_wait(calm_node, order, second)
    calm_node.say(order, wanted="stop")
    assert calm_node.wait_for(order, "ended")["reason"]["code"] == "stopped"


def test_the_death_of_rank_0_ends_them_all(calm_node: ControlledNode) -> None:
    order = order_of(calm_node)
    first, _ = started(calm_node, order)
    os.kill(first, signal.SIGKILL)
    assert [rank["signal"] for rank in calm_node.wait_for(order, "ended")["ranks"]] == [9, 9]


@pytest.mark.parametrize(("kind", "joins"), [({"synchronization": {"kind": "diloco"}}, True), (KIND, False)])
def test_a_death_that_others_would_wait_for_ends_them_all(
    calm_node: ControlledNode, kind: JsonObject, joins: bool
) -> None:
    order = order_of(calm_node, kind=kind, joins=joins)
    _, second = started(calm_node, order)
    os.kill(second, signal.SIGKILL)
    assert [rank["signal"] for rank in calm_node.wait_for(order, "ended")["ranks"]] == [9, 9]


@pytest.mark.extended
def test_training_goes_on_over_two_nodes_when_a_rank_of_the_other_is_killed(two_nodes: list[ControlledNode]) -> None:
    spec = parse_spec(
        {
            "name": "survives",
            "resources": {"nodes": 2, "processes_per_node": 1, "accelerator": "cpu"},
            "task": {"recipe": "language-model", "model": {"layers": 1, "width": 16, "heads": 2, "context": 32}},
            "train": {"steps": 60, "batch_size": 4, "validate_every_steps": 0},
            "parallel": KIND,
        }
    ).resolved()
    shared = {"attempt": secrets.token_hex(6), "run": "survives", "num_nodes": 2, "world_size": 2, "spec": spec}
    orders = [node.order(**shared, node_rank=number, first_rank=number) for number, node in enumerate(two_nodes)]
    for node, order in zip(two_nodes, orders, strict=True):
        node.say(order)
    ready = [node.wait_for(order, "ready") for node, order in zip(two_nodes, orders, strict=True)]
    go = {"master_addr": ready[0]["address"], "master_port": ready[0]["port"]}
    for node, order in zip(two_nodes, orders, strict=True):
        node.say(order, wanted="run", go=go)
    printed = two_nodes[0].folder(orders[0]["attempt"]).stream_path(0, "stdout")
    until(lambda: printed.exists() and "step 4/60" in printed.read_text())
    os.kill(two_nodes[1].wait_for(orders[1], "running")["ranks"][0]["pid"], signal.SIGKILL)
    assert two_nodes[1].wait_for(orders[1], "ended")["ranks"][0]["has_joined"]
    report = two_nodes[0].wait_for(orders[0], "ended")
    assert report["reason"] is None, report
    text = printed.read_text()
    assert "step 60/60" in text
    assert "rank 1 is gone (" in text
    assert (two_nodes[0].folder(orders[0]["attempt"]).output / "model.safetensors").exists()

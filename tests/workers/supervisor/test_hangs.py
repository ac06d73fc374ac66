"""What a supervisor reports of a rank that makes no progress, and how it ends one: with real processes."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from workers.machine.processes import start_of

WAITS = """
import threading
def wait_for_nobody():
    threading.Event().wait()
print("ready", flush=True)
wait_for_nobody()
"""


def launched(node: ControlledNode, **task: str) -> tuple[JsonObject, int]:
    order = node.order(WAITS)
    order["spec"]["task"] |= task
    order["spec"] |= {"hangs": {"after": "4s", "action": "stop"}}
    node.launch(order)
    until(lambda: node.lines(order))
    return order, int(node.wait_for(order, "running")["ranks"][0]["pid"])


def stall_of(node: ControlledNode, order: JsonObject) -> JsonObject:
    report = node.report(order)
    stall: JsonObject = (report and report["ranks"][0].get("stall")) or {}
    return stall


@pytest.mark.parametrize("task", [{}, {"python": sys.executable}], ids=["warm", "cold"])
def test_a_script_that_waits_for_ever_is_reported_with_its_line(
    calm_node: ControlledNode, task: dict[str, str]
) -> None:
    order, pid = launched(calm_node, **task)
    stall = until(lambda: (found := stall_of(calm_node, order)).get("is_over") and found.get("stack") and found)
    assert stall["line"] == "train.py line 4"
    assert "in wait_for_nobody" in stall["stack"]
    finding = {
        "kind": "no-step",
        "sentence": "Rank 0 on calm hangs.",
        "rank": 0,
        "node": "calm",
        "action": "stop",
        "acts": True,
    }
    calm_node.say(order, hang=finding)
    report = calm_node.wait_for(order, "ended")
    reason = report["reason"]
    assert (reason["code"], reason["sentence"]) == ("hang", "Rank 0 on calm hangs.")
    assert (reason["evidence"]["rank"], reason["evidence"]["action"]) == (0, "stop")
    assert report["ranks"][0]["was_ended"] and start_of(pid) is None


def test_a_script_that_needs_a_thousandth_of_a_core_is_no_hang(calm_node: ControlledNode) -> None:
    order = calm_node.order("import time\nwhile True: time.sleep(0.1)")
    order["spec"] |= {"hangs": {"after": "4s", "action": "stop"}}
    calm_node.launch(order)
    rank = calm_node.wait_for(order, "running")["ranks"][0]
    until(
        lambda: ((calm_node.report(order) or {})["ranks"][0]["computed_at"] or 0.0) > rank["started_at"] + 7.0,
        limit_s=60.0,
    )
    assert not stall_of(calm_node, order)


@pytest.mark.extended
def test_a_stopped_rank_is_reported_as_stopped_and_can_be_ended(calm_node: ControlledNode) -> None:
    order, pid = launched(calm_node)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: stall_of(calm_node, order).get("is_stopped"))
    until(lambda: stall_of(calm_node, order).get("is_over"))
    calm_node.say(
        order, hang={"kind": "stopped", "sentence": "It is stopped.", "rank": 0, "node": "calm", "acts": True}
    )
    assert calm_node.wait_for(order, "ended")["reason"]["code"] == "hang"
    assert start_of(pid) is None

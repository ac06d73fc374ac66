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
    bare_node: ControlledNode, task: dict[str, str]
) -> None:
    order, pid = launched(bare_node, **task)
    stall = until(lambda: (found := stall_of(bare_node, order)).get("is_over") and found.get("stack") and found)
    assert stall["line"] == "train.py line 4"
    assert "in wait_for_nobody" in stall["stack"]
    finding = {
        "kind": "no-step",
        "sentence": "Rank 0 on one hangs.",
        "rank": 0,
        "node": "one",
        "action": "stop",
        "acts": True,
    }
    bare_node.say(order, hang=finding)
    report = bare_node.wait_for(order, "ended")
    reason = report["reason"]
    assert (reason["code"], reason["sentence"]) == ("hang", "Rank 0 on one hangs.")
    assert (reason["evidence"]["rank"], reason["evidence"]["action"]) == (0, "stop")
    assert report["ranks"][0]["was_ended"] and start_of(pid) is None


def test_a_script_that_needs_a_thousandth_of_a_core_is_no_hang(bare_node: ControlledNode) -> None:
    order = bare_node.order("import time\nwhile True: time.sleep(0.1)")
    order["spec"] |= {"hangs": {"after": "4s", "action": "stop"}}
    bare_node.launch(order)
    rank = bare_node.wait_for(order, "running")["ranks"][0]
    until(
        lambda: ((bare_node.report(order) or {})["ranks"][0]["computed_at"] or 0.0) > rank["started_at"] + 10.0,
        limit_s=60.0,
    )
    assert not stall_of(bare_node, order)


@pytest.mark.extended
def test_a_stopped_rank_is_reported_as_stopped_and_can_be_ended(bare_node: ControlledNode) -> None:
    order, pid = launched(bare_node)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: stall_of(bare_node, order).get("is_stopped"))
    until(lambda: stall_of(bare_node, order).get("is_over"))
    bare_node.say(order, hang={"kind": "stopped", "sentence": "It is stopped.", "rank": 0, "node": "one", "acts": True})
    assert bare_node.wait_for(order, "ended")["reason"]["code"] == "hang"
    assert start_of(pid) is None

"""A user's own script, from the order to the final report, on a real node worker."""

from __future__ import annotations

from tests.workers.control import ControlledNode

HELLO = """
import os, sys
import trainyard
run = trainyard.init()
for step in range(3):
    run.log({"train/loss": 1.0 / (step + 1)}, step=step)
run.finish()
print("hello from", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
print("on the side", file=sys.stderr)
"""


def test_a_script_runs_to_its_end_and_everything_that_it_said_is_shipped(node: ControlledNode) -> None:
    order = node.order(HELLO, ranks=2)
    node.launch(order)
    report = node.wait_for(order, "ended")
    assert report["reason"] is None
    assert [rank["exit_code"] for rank in report["ranks"]] == [0, 0]
    assert sorted(node.lines(order)) == ["hello from 0 of 2", "hello from 1 of 2"]

"""The variables by which other frameworks find the ranks, on a real node worker."""

from __future__ import annotations

import json

import pytest

from tests.workers.control import ControlledNode

pytestmark = pytest.mark.extended

SCRIPT = """
import json, os
task = json.loads(os.environ["TF_CONFIG"])
rank = task["task"]["index"]
assert rank == int(os.environ["OMPI_COMM_WORLD_RANK"]) == int(os.environ["JAX_PROCESS_ID"])
assert os.environ["JAX_COORDINATOR_ADDRESS"].startswith("127.0.0.1:")
print(json.dumps([rank, task["cluster"]["worker"], "RANK" in os.environ]))
"""


def test_ranks_find_each_other_as_their_launchers_would_have_them(calm_node: ControlledNode) -> None:
    task = {"script": "train.py", "arguments": [], "launch": ["tensorflow", "mpi", "jax"]}
    order = calm_node.order(SCRIPT, ranks=2, spec={"task": task})
    calm_node.nudge(order)
    calm_node.say(order)
    report = calm_node.wait_for(order, "ready")
    workers = [f"127.0.0.1:{port}" for port in report["ports"]]
    go = {"master_addr": "127.0.0.1", "master_port": report["port"], "workers": workers}
    calm_node.say(order, wanted="run", go=go)
    assert calm_node.wait_for(order, "ended")["reason"] is None
    calm_node.wait_until_shipped(order)
    found = sorted(map(json.loads, calm_node.lines(order)))
    assert found == [[0, workers[1:], False], [1, workers[1:], False]]  # the first is that of MPI's process manager
    assert len({*workers, f"127.0.0.1:{report['port']}"}) == 4

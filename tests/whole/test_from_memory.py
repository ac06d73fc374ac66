"""A run that is hurt goes on from the memory of its nodes, through every process that there is."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.browser.conftest import tiny
from tests.whole.runs import Document, Yard
from tests.whole.test_recovery import said, victim
from tests.whole.test_restoring import points, until
from workers.replicas.folders import FOLDER, MemoryFolder, memory_path
from workers.transport.node_config import node_home

FROM_MEMORY = re.compile(
    r"Continues from the memory of ([\w -]+), step (\d+) of attempt \d+; (\d+) steps? (is|are) trained again\."
)


def remembering(name: str) -> Document:
    spec: Document = tiny(name, steps=400, validate_every_steps=100) | {"resources": {"nodes": 2}}
    spec["checkpoint"] = {"every_steps": 300, "replicate_every_steps": 10}
    return spec


def memory_of(yard: Yard, node: str) -> MemoryFolder:
    path = memory_path(node_home(yard.up.home, node), {FOLDER: str(yard.up.home.parent)})
    return MemoryFolder(path, 1 << 30)


@pytest.mark.timeout(600)
def test_killed_ranks_go_on_from_memory(yard: Yard) -> None:
    undisturbed = yard.submit(remembering("undisturbed"))
    assert yard.wait_for_end(undisturbed)["status"] == "SUCCEEDED"
    run = yard.submit(remembering("hurt"))
    for number, what in enumerate(("rank 0", "supervisor"), start=1):
        yard.wait_for_step(run, 80 * number)
        os.kill(victim(yard, run, what), signal.SIGKILL)
        until(lambda number=number: yard.run(run)["attempt"] == number + 1)
        until(lambda number=number: len(said(yard, run, "restored")) == number)
        restored = FROM_MEMORY.fullmatch(said(yard, run, "restored")[-1])
        assert restored is not None, said(yard, run, "restored")
        assert int(restored[2]) >= 80 * number - 20, restored[0]
        document = yard.run(run)["restarts"]
        assert (document["source"], document["from_step"]) == (f"the memory of {restored[1]}", int(restored[2]))
    nodes = {one["node"] for one in placements(yard, run)}
    assert any(run in memory_of(yard, node).runs() for node in nodes)
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["step"], ended["attempt"]) == ("SUCCEEDED", 400, 3), ended["reason"]
    assert points(yard, run, "train/loss") == points(yard, undisturbed, "train/loss")
    until(lambda: not any(run in memory_of(yard, node).runs() for node in nodes))


def placements(yard: Yard, run: str) -> list[Document]:
    found: list[Document] = yard.get(f"/runs/{run}/attempts")["items"][-1]["placements"]
    return found

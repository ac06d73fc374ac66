"""A run that is hurt goes on from the memory of its nodes, through every process that there is."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.browser.conftest import tiny
from tests.servers import short_folder
from tests.up_process import Up, new_home
from tests.whole.conftest import Losses, two_ranks
from tests.whole.runs import Document, Yard, points, until
from tests.whole.test_recovery import said, victim
from workers.replicas.folders import FOLDER, MemoryFolder, memory_path
from workers.transport.node_config import node_home

FROM_MEMORY = re.compile(
    r"Continues from the memory of ([\w -]+), step (\d+) of attempt \d+; (\d+) steps? (is|are) trained again\."
)


OFTEN = {"every_steps": 300, "replicate_every_steps": 10}


def remembering(name: str, steps: int) -> Document:
    spec: Document = tiny(name, steps=steps, validate_every_steps=100)
    return spec | {"resources": {"nodes": 2}, "checkpoint": OFTEN}


def memory_of(yard: Yard, node: str) -> MemoryFolder:
    path = memory_path(node_home(yard.up.home, node), {FOLDER: str(yard.up.home.parent)})
    return MemoryFolder(path, 1 << 30)


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_killed_ranks_go_on_from_memory(yard: Yard, undisturbed: Losses) -> None:
    run = yard.submit(two_ranks("hurt", checkpoint=OFTEN))
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
    assert points(yard, run, "train/loss") == undisturbed["train/loss"]
    until(lambda: not any(run in memory_of(yard, node).runs() for node in nodes))


@pytest.fixture
def three_nodes() -> Iterator[Yard]:
    with short_folder("ty-three-") as folder:
        up = Up(new_home(folder), NODES="3")
        try:
            up.wait_until_said("Nodes in contact")
            with Yard(up) as one:
                yield one
        finally:
            up.close()


def lose(yard: Yard, node: str, rank: int) -> None:
    """End all that is left of the run on the node, its node worker, and what is in its memory. The rank stands still
    first until what it wrote has been sent: what a lost node had not sent is trained again."""
    os.kill(rank, signal.SIGSTOP)
    time.sleep(1.5)
    supervisor = psutil.Process(rank).ppid()
    reaper = psutil.Process(supervisor).ppid()
    worker = next(pid for name, pid in yard.up.processes().items() if name.endswith(node))
    for pid in (worker, reaper, supervisor, rank):
        os.kill(pid, signal.SIGKILL)
    memory_of(yard, node).remove()


@pytest.mark.extended  # tests/workers/training/replicas has the same in one process group
@pytest.mark.timeout(600)
def test_of_a_lost_node_the_state_is_in_the_memory_of_another(three_nodes: Yard) -> None:
    """The node gets no more work, so that the next attempt is on a third one, which has nothing."""
    yard = three_nodes
    run = yard.submit(remembering("bereft", 1200) | {"restarts": {"max": 3}})
    yard.wait_for_step(run, 60)
    until(lambda: any(node["standby"].get(run) == "" for node in yard.get("/nodes")["items"]))  # the third is a spare
    lost, other = placements(yard, run)
    assert yard.http.post(f"/nodes/{node_id(yard, lost['node'])}/drain").status_code == 200
    lose(yard, lost["node"], lost["ranks"][0]["pid"])
    until(lambda: said(yard, run, "restored"))
    restored = FROM_MEMORY.fullmatch(said(yard, run, "restored")[0])
    assert restored is not None and restored[1] == other["node"], said(yard, run, "restored")
    assert int(restored[2]) >= 50 and int(restored[3]) <= 20, restored[0]
    nodes = {one["node"] for one in placements(yard, run)}
    assert lost["node"] not in nodes and other["node"] in nodes
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["step"], ended["attempt"]) == ("SUCCEEDED", 1200, 2), ended["reason"]
    undisturbed = yard.submit(remembering("undisturbed", 1200))
    yard.wait_for_end(undisturbed)
    assert points(yard, run, "train/loss") == points(yard, undisturbed, "train/loss")


def node_id(yard: Yard, name: str) -> str:
    return next(str(one["id"]) for one in yard.get("/nodes")["items"] if one["name"] == name)


def placements(yard: Yard, run: str) -> list[Document]:
    found: list[Document] = yard.get(f"/runs/{run}/attempts")["items"][-1]["placements"]
    return found

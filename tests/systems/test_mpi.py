"""MPI by its own name: mpi4py over the MPICH that nodes install, its COMM_WORLD over two nodes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.systems.scripts import LIMIT_S, lines, run, submit
from tests.whole.runs import Yard

pytestmark = pytest.mark.timeout(900)
WAITS = """
import time
from mpi4py import MPI
for step in range(1, 10_000):
    MPI.COMM_WORLD.allreduce(1)
    print("step", step, flush=True)
    time.sleep(0.2)
"""
FAILS = """
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    raise ValueError("no such layer")
MPI.COMM_WORLD.allreduce(1)
"""
IMPORTS = "from mpi4py import MPI\n"
AROUND = """
from mpi4py import MPI
world = MPI.COMM_WORLD
received = world.sendrecv(bytes(10_000_000), (world.rank + 1) % world.size)
print(world.rank, world.size, world.allreduce(world.rank), len(received), flush=True)
"""


def submit_script(yard: Yard, folder: Path, script: str, **changes: Any) -> str:
    return submit(yard, "mpi4py", folder, {"train.py": script}, task={"arguments": []}, **changes)


def failure(yard: Yard, run_id: str) -> str:
    """Wait until the run has failed, and return its sentence."""
    assert yard.wait_for_end(run_id, LIMIT_S)["status"] == "FAILED", lines(yard, run_id)
    return yard.sentence(run_id)


@pytest.mark.parametrize(("library", "name"), [("mpich", "MPICH Version:"), ("impi-rt", "Intel(R) MPI Library")])
def test_the_ranks_of_two_nodes_are_one_world_whose_all_reduce_is_right(
    yard: Yard, tmp_path: Path, library: str, name: str
) -> None:
    said = lines(yard, run(yard, "mpi4py", tmp_path, environment={"requirements": ["mpi4py", library, "numpy"]}))
    assert "2 ranks found y = 3.000 x + -1.000" in said
    assert [sum(line.startswith(f"rank {rank} of 2: {name}") for line in said) for rank in (0, 1)] == [1, 1]


def test_two_ranks_on_each_of_two_nodes_know_their_neighbours(yard: Yard, tmp_path: Path) -> None:
    run_id = submit_script(yard, tmp_path, AROUND, resources={"nodes": 2, "processes_per_node": 2})
    assert yard.wait_for_end(run_id, LIMIT_S)["status"] == "SUCCEEDED", lines(yard, run_id)
    assert {f"{rank} 4 6 10000000" for rank in range(4)} <= set(lines(yard, run_id))


def test_a_killed_rank_is_named_and_the_run_begins_again_with_a_new_world(yard: Yard, tmp_path: Path) -> None:
    run_id = submit_script(yard, tmp_path, WAITS, restarts={"max": 1, "backoff": "1s"})
    yard.wait_for(lambda: lines(yard, run_id).count("step 5") == 2, lambda: str(lines(yard, run_id)), LIMIT_S)
    [_, second] = yard.attempts(run_id)[0]["placements"]
    os.kill(second["ranks"][0]["pid"], signal.SIGKILL)
    yard.wait_for(lambda: len(yard.attempts(run_id)) == 2, lambda: yard.sentence(run_id))
    cause = yard.attempts(run_id)[0]["cause"]
    assert cause["class"] == "killed" and cause["sentence"].startswith("Rank 1 on "), cause
    yard.wait_for(lambda: lines(yard, run_id).count("step 5") == 4, lambda: str(lines(yard, run_id)))
    yard.post(f"/runs/{run_id}/stop")
    assert yard.wait_for_end(run_id)["status"] == "CANCELLED"


def test_an_error_in_one_rank_ends_the_run_and_leaves_no_rank_waiting(yard: Yard, tmp_path: Path) -> None:
    sentence = failure(yard, submit_script(yard, tmp_path, FAILS, restarts={"max": 0}))
    assert "Rank 1" in sentence and "no such layer" in sentence


def test_a_missing_library_is_a_sentence(yard: Yard, tmp_path: Path) -> None:
    sentence = failure(yard, submit_script(yard, tmp_path, IMPORTS, environment={"requirements": ["mpi4py"]}))
    assert "found no library of MPI" in sentence


def test_a_library_that_would_train_alone_is_refused(yard: Yard, tmp_path: Path) -> None:
    both = {"requirements": ["mpi4py", "openmpi"]}
    sentence = failure(yard, submit_script(yard, tmp_path, IMPORTS, environment=both))
    assert "Open MPI v5" in sentence and "sees 1 rank of 2" in sentence

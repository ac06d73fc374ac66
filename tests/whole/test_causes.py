"""What is killed in a live run over two nodes is what the run's page names, and not what the other node felt of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.up_process import Up
from tests.whole.runs import Yard, example


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_rank(_: Up, rank: int) -> None:
    os.kill(rank, signal.SIGKILL)


def kill_supervisor(_: Up, rank: int) -> None:
    os.kill(parent_of(rank), signal.SIGKILL)


def kill_reaper(_: Up, rank: int) -> None:
    os.kill(parent_of(parent_of(rank)), signal.SIGKILL)


def kill_node(up: Up, rank: int) -> None:
    """The node worker with its supervisor; `up` starts it anew."""
    supervisor = parent_of(rank)
    os.kill(up.processes()["local-2"], signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)


KILLED = ("killed", "Rank 1 on local-2 was killed by SIGKILL (9) in step ")
SUPERVISOR = ("process-lost", "The supervisor on local-2 was killed; its ranks ended with it.")
REAPER = ("process-lost", "The process reaper on local-2 was killed; its ranks ended with it.")
NODE = ("node-lost", "Node local-2 is out of contact.")
KILLS = {kill_rank: KILLED, kill_supervisor: SUPERVISOR, kill_reaper: REAPER}  # test_recovery reads these causes too
CASES = [
    *(pytest.param(kill, [cause], id=kill.__name__, marks=pytest.mark.extended) for kill, cause in KILLS.items()),
    # The node worker that `up` starts may need longer than silence is allowed to last.
    pytest.param(kill_node, [SUPERVISOR, NODE], id="kill_node"),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kill", "causes"), CASES)
def test_the_cause_names_what_was_killed_and_its_node(
    running_trainyard: Up, yard: Yard, kill: Callable[[Up, int], None], causes: list[tuple[str, str]]
) -> None:
    spec = example("tiny-steps", steps=100_000, validate_every_steps=0)
    spec |= {"name": kill.__name__, "resources": {"nodes": 2, "processes_per_node": 1}, "restarts": {"max": 0}}
    run = yard.submit(spec)
    yard.wait_for_step(run, 20)

    def placements() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = yard.attempts(run)[0]["placements"]
        return found

    # Steps come by another way than the nodes' reports, and sooner.
    yard.wait_for(lambda: all(one["ranks"] for one in placements()), "a node did not report its ranks")
    assert [one["node"] for one in placements()] == ["local-1", "local-2"]
    kill(running_trainyard, placements()[1]["ranks"][0]["pid"])
    ended = yard.wait_for_end(run)
    cause = yard.get(f"/runs/{run}/attempts")["items"][0]["cause"]
    assert cause["node"] == "local-2"
    assert any(cause["class"] == word and cause["sentence"].startswith(start) for word, start in causes), cause
    assert ended["reason"]["sentence"].startswith(cause["sentence"])
    assert "GLHF" not in str([ended["reason"]["sentence"], cause["sentence"], cause["consequences"]])
    assert {one["node"] for one in cause["consequences"]} == {"local-1"}

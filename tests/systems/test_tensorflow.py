"""TensorFlow by its own name: two workers on two nodes, their curves as they come, and one that is killed."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systems.scripts import LIMIT_S, lines, submit
from tests.whole.runs import FINAL, Document, Yard, points

SERIES = "epoch_loss"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that both nodes share, and any user may write."""
    with tempfile.TemporaryDirectory(prefix="ty-kept-", dir="/dev/shm") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def curve(yard: Yard, run_id: str) -> dict[int, float]:
    found: list[Document] = yard.get(f"/runs/{run_id}/series")["items"]
    return points(yard, run_id, SERIES) if any(one["name"] == SERIES for one in found) else {}


def has_ended(yard: Yard, run_id: str) -> bool:
    return yard.run(run_id)["status"] in FINAL


@pytest.mark.timeout(1800)
def test_two_workers_learn_a_line_and_a_killed_one_goes_on_from_its_last_epoch(
    yard: Yard, tmp_path: Path, shared: Path
) -> None:
    task = {"arguments": ["--epochs", "24", "--kept", str(shared / "kept")]}
    run_id = submit(yard, "tensorflow", tmp_path, task=task, restarts={"max": 1, "backoff": "1s"})
    yard.wait_for(lambda: has_ended(yard, run_id) or len(curve(yard, run_id)) > 3, "no curve", LIMIT_S)
    assert yard.run(run_id)["status"] == "RUNNING", lines(yard, run_id)[-40:]  # the curve comes live
    [_, second] = yard.attempts(run_id)[0]["placements"]
    os.kill(second["ranks"][0]["pid"], signal.SIGKILL)
    ended = yard.wait_for_end(run_id, LIMIT_S)
    assert ended["status"] == "SUCCEEDED", (ended["reason"], lines(yard, run_id)[-40:])
    first, again = yard.attempts(run_id)
    assert first["cause"]["class"] == "killed" and first["cause"]["sentence"].startswith("Rank 1 on ")
    assert "2 replicas found a line" in lines(yard, run_id)
    logged = yard.get(f"/runs/{run_id}/logs", limit=5000, tail=True)["items"]
    begun = [one["text"] for one in logged if one["attempt"] == again["fence"] and one["text"].startswith("Epoch ")]
    assert begun[0].removeprefix("Epoch ") not in ("1/24", "2/24"), "it began anew"
    assert begun[-1] == "Epoch 24/24" and curve(yard, run_id)[23] < 1e-3

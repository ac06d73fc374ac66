"""Ray Train in a Ray that its script starts for itself, in the environment and the sandbox of a rank."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.systems.launchers import LAUNCHERS, Launcher, is_ray_worker, points, rank_process, submit, wait
from tests.systems.scripts import lines, run
from tests.whole.runs import Document, Yard

pytestmark = pytest.mark.timeout(3600)


def test_two_workers_of_its_own_ray_average_their_gradients(yard: Yard, tmp_path: Path) -> None:
    said = lines(yard, run(yard, "ray-train", tmp_path))
    assert any("2 workers found y = 3.000 x + -1.000, loss 0.000000" in line for line in said), said[-40:]


def kill_a_worker(yard: Yard, run_id: str, launcher: Launcher, *, attempt: int, number: int) -> Document:
    """Kill one of the two workers once the attempt has trained on. Return the cause of its end."""
    last = max((step for one, step, _, _ in points(yard, run_id) if one < attempt), default=0)
    wait(yard, run_id, lambda: any(step > last + 10 for _, step, _, _ in points(yard, run_id)), "steps of an attempt")
    below = psutil.Process(rank_process(yard, run_id, launcher)).parent()
    assert below is not None
    [one for one in below.children() if is_ray_worker(one)][number].kill()
    wait(yard, run_id, lambda: len(yard.attempts(run_id)) > attempt, "another attempt")
    cause: Document = yard.attempts(run_id)[attempt - 1]["cause"]
    return cause


def test_a_killed_worker_is_named_and_the_run_goes_on_each_time(yard: Yard) -> None:
    [launcher] = [one for one in LAUNCHERS if one.name == "Ray Train"]
    run_id = submit(yard, launcher, "local", "--steps", "1000000", "--pause", "0.02")
    for attempt, number in ((1, 1), (2, 0)):
        cause = kill_a_worker(yard, run_id, launcher, attempt=attempt, number=number)
        assert cause["class"] == "killed" and "lost a process of Ray (The actor died unexpectedly" in cause["sentence"]
    wait(yard, run_id, lambda: any(one == 3 for one, _, _, _ in points(yard, run_id)), "steps of the third attempt")
    yard.post(f"/runs/{run_id}/stop")
    assert yard.wait_for_end(run_id)["status"] == "CANCELLED"

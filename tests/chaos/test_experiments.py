"""One fault after another at random moments, and what is counted afterwards: nothing lost, nothing doubled, no status
that is still wrong half a minute later. `make chaos` repeats them with SEEDS seeds and prints a table at the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.chaos.losses.experiment import Experiment
from tests.chaos.scene import ROWS, Scene
from tests.chaos.test_kills import kill
from tests.up_process import ROOT, Up
from tests.whole.runs import Yard
from tests.whole.test_restoring import until

NUM_SEEDS = int(os.environ.get("CHAOS_SEEDS", "1"))
PAUSED_S = 30.0 if NUM_SEEDS > 1 else 8.0

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]


def rank_is_killed(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    scene.kill_of_attempt(run, lambda report: scene.choice.choice([int(rank["pid"]) for rank in report["ranks"]]))
    scene.check_status(run)


def supervisor_is_killed(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    scene.kill_of_attempt(run, lambda report: int(report["supervisor_pid"]))
    scene.check_status(run)


def node_worker_is_killed(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    kill(scene.up, scene.choice.choice(["local-1", "local-2"]))
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "its supervisor was adopted"


def control_is_killed_at_launch(scene: Scene) -> None:
    run = scene.submit()
    time.sleep(scene.choice.random() * 1.2)
    kill(scene.up, "control")
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "one attempt started"


def two_controls(scene: Scene) -> None:
    """A second control process works beside the first, as in an upgrade that overlaps."""
    other = second_control(scene.up)
    try:
        runs = [scene.submit(steps=60) for _ in range(3)]
        for run in runs:
            assert scene.yard.wait_for_end(run)["attempt"] == 1, "each run was placed once"
    finally:
        other.terminate()
        other.wait(timeout=30)


def valkey_is_killed(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    kill(scene.up, "valkey")
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"


def valkey_is_wiped(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    Experiment(scene.up, scene.up.home, scene.choice, ()).wipe_valkey()
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"


def valkey_is_paused(scene: Scene) -> None:
    run = scene.submit(steps=2_000)
    scene.wait_for_a_step(run)
    pid = scene.up.processes()["valkey"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSED_S)
    os.kill(pid, signal.SIGCONT)
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"


def checkpoint_is_damaged(scene: Scene, damage: Callable[[Path, random.Random], None]) -> None:
    """The newest checkpoint of a paused run is damaged: it is detected, and the one before is used."""
    run = scene.submit(steps=1_000_000)
    scene.wait_for_a_step(run, 120, 300)
    scene.yard.post(f"/runs/{run}/pause")
    until(lambda: scene.yard.run(run)["status"] == "PAUSED")
    scene.check_status(run)
    damage(scene.checkpoints(run)[0], scene.choice)
    scene.yard.post(f"/runs/{run}/resume")
    until(lambda: "restored" in [event["code"] for event in scene.events(run)])
    codes = [event["code"] for event in scene.events(run)]
    assert "checkpoint-invalid" in codes, codes
    scene.yard.wait_for_step(run, 320)
    scene.yard.post(f"/runs/{run}/stop")


def truncate(folder: Path, choice: random.Random) -> None:
    path = largest_file(folder)
    os.truncate(path, choice.randrange(path.stat().st_size))


def flip_a_bit(folder: Path, choice: random.Random) -> None:
    path = largest_file(folder)
    content = bytearray(path.read_bytes())
    content[choice.randrange(len(content))] ^= 1 << choice.randrange(8)
    path.write_bytes(content)


def lose_the_manifest(folder: Path, _: random.Random) -> None:
    next(folder.glob("manifest*")).unlink()


def largest_file(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def checkpoint_is_truncated(scene: Scene) -> None:
    checkpoint_is_damaged(scene, truncate)


def checkpoint_has_a_flipped_bit(scene: Scene) -> None:
    checkpoint_is_damaged(scene, flip_a_bit)


def checkpoint_lost_its_manifest(scene: Scene) -> None:
    checkpoint_is_damaged(scene, lose_the_manifest)


def cancel_races_with_the_finish(scene: Scene) -> None:
    for _ in range(4):
        run = scene.submit(steps=60)
        scene.yard.wait_for_step(run, scene.choice.randrange(40, 60))
        time.sleep(scene.choice.random() * 0.3)
        answer = scene.yard.http.post(f"/runs/{run}/stop")
        assert answer.status_code in (200, 409), answer.text
        status = scene.yard.wait_for_end(run)["status"]
        time.sleep(1)
        assert scene.yard.run(run)["status"] == status, "what is over stays as it is"


EITHER = ("SUCCEEDED", "CANCELLED")
EXPERIMENTS: dict[Callable[[Scene], None], tuple[str, ...]] = {
    rank_is_killed: ("SUCCEEDED",),
    supervisor_is_killed: ("SUCCEEDED",),
    node_worker_is_killed: ("SUCCEEDED",),
    control_is_killed_at_launch: ("SUCCEEDED",),
    two_controls: ("SUCCEEDED",),
    valkey_is_killed: ("SUCCEEDED",),
    valkey_is_wiped: ("SUCCEEDED",),
    valkey_is_paused: ("SUCCEEDED",),
    checkpoint_is_truncated: ("CANCELLED",),
    checkpoint_has_a_flipped_bit: ("CANCELLED",),
    checkpoint_lost_its_manifest: ("CANCELLED",),
    cancel_races_with_the_finish: EITHER,
}


@pytest.mark.parametrize("number", range(NUM_SEEDS))
@pytest.mark.parametrize("fault", EXPERIMENTS, ids=lambda fault: fault.__name__)
def test_after_a_fault_nothing_is_lost_or_doubled_and_every_status_is_true(
    running_trainyard: Up,
    yard: Yard,
    request: pytest.FixtureRequest,
    fault: Callable[[Scene], None],
    number: int,
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000))) + number
    print(f"\nCHAOS_SEED={seed} {fault.__name__}", flush=True)
    scene = Scene(running_trainyard, yard, seed)
    fault(scene)
    row = scene.finish(fault.__name__.replace("_", " "), statuses=EXPERIMENTS[fault])
    request.config.stash.setdefault(ROWS, []).append(row)
    print(f"  {row}")
    assert row.points > 0 and row.is_clean


def second_control(up: Up) -> subprocess.Popen[bytes]:
    """The same command in the same environment as the first one's."""
    first = psutil.Process(up.processes()["control"])
    environment = {name: value for name, value in first.environ().items() if name != "TRAINYARD_LIFELINE"}
    process = subprocess.Popen(
        first.cmdline(), cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(4)  # until it reads messages and ticks
    assert process.poll() is None, "the second control ended"
    return process

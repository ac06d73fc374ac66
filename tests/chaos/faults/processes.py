"""Processes that are killed, paused, or run twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import psutil

from tests.chaos.scene import NUM_SEEDS, Scene
from tests.chaos.test_kills import kill
from tests.up_process import ROOT, Up

PAUSED_S = 30.0 if NUM_SEEDS > 1 else 8.0


def rank_is_killed(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    rank = scene.kill_of_attempt(run, scene.any_rank)
    scene.check_status(run)
    scene.check_blame(run, "killed", rank=rank)


def rank_gets_sigterm_from_outside(scene: Scene) -> None:
    """Nobody of ours has sent it: it is a failure like any other, and no stop."""
    run = scene.submit()
    scene.wait_for_a_step(run)
    rank = scene.kill_of_attempt(run, scene.any_rank, signal.SIGTERM)
    scene.wait_for_attempt(run, 2)
    scene.check_status(run)
    scene.check_blame(run, "killed", rank=rank)


def rank_is_stopped(scene: Scene) -> None:
    """SIGSTOP: the hang is named, and the run carries on from its checkpoint."""
    run = scene.submit(hangs={"after": "5s"})
    scene.wait_for_a_step(run)
    rank = scene.kill_of_attempt(run, scene.any_rank, signal.SIGSTOP)
    scene.wait_for_attempt(run, 2)
    scene.check_status(run)
    scene.check_blame(run, "hang", rank=rank)


def supervisor_is_killed(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    scene.kill_of_attempt(run, lambda report: int(report["supervisor_pid"]))
    scene.check_status(run)
    scene.check_blame(run, "process-lost")


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


def site_is_restarted(scene: Scene) -> None:
    """Web, control and ingest at once, as an upgrade does."""
    run = scene.submit()
    scene.wait_for_a_step(run)
    names = ("web", "control", "ingest")
    pids = {name: scene.up.processes()[name] for name in names}
    for pid in pids.values():
        os.kill(pid, scene.choice.choice([signal.SIGTERM, signal.SIGKILL]))
    scene.wait_until_true(lambda: all(scene.up.processes().get(name, pids[name]) != pids[name] for name in names))
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"


def two_controls(scene: Scene) -> None:
    """A second control process works beside the first, as in an upgrade that overlaps."""
    other = beside(scene.up, "control")
    try:
        runs = [scene.submit(steps=60) for _ in range(3)]
        for run in runs:
            assert scene.yard.wait_for_end(run)["attempt"] == 1, "each run was placed once"
    finally:
        other.terminate()
        other.wait(timeout=30)


def two_ingests(scene: Scene) -> None:
    """A second ingest waits for the shard's lock, and takes over when the first is killed."""
    other = beside(scene.up, "ingest")
    try:
        run = scene.submit()
        scene.wait_for_a_step(run)
        kill(scene.up, "ingest")
        scene.check_status(run)
        assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"
    finally:
        other.terminate()
        other.wait(timeout=30)


def beside(up: Up, name: str) -> subprocess.Popen[bytes]:
    """Start the same command in the same environment as the one of that name."""
    first = psutil.Process(up.processes()[name])
    environment = {name: value for name, value in first.environ().items() if name != "TRAINYARD_LIFELINE"}
    process = subprocess.Popen(
        first.cmdline(), cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(4)  # until it reads messages and ticks
    assert process.poll() is None, f"the second {name} ended"
    return process

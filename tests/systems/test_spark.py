"""Spark by its own name: a standalone cluster of the run's own, and two processes of its TorchDistributor."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.systems.scripts import EXAMPLES, LIMIT_S, lines, losses, run, submit
from tests.whole.runs import Document, Yard

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("java") is None, reason="needs java: apt-get install openjdk-17-jre-headless"),
]
ALONE = """
import train
train.train([(i / 128 - 1, (i / 128 - 1) ** 3 - (i / 128 - 1) / 2) for i in range(256)], 20, "")
"""
FAILS = """
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession
import beside

def train():
    import torch.distributed as dist
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        beside.fail()
    dist.barrier()

spark = SparkSession.builder.getOrCreate()
TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(train)
"""
BESIDE = 'def fail():\n    raise ValueError("no such layer")\n'


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that both nodes share, and any user may write."""
    with tempfile.TemporaryDirectory(prefix="ty-kept-", dir="/dev/shm") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def processes_of(yard: Yard, run_id: str, words: str) -> list[psutil.Process]:
    """Return the run's processes whose command line has the words."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get("TRAINYARD_RUN") == run_id and words in " ".join(one.cmdline()):
                found.append(one)
        except psutil.Error:
            continue
    return found


def submit_long(yard: Yard, folder: Path, shared: Path) -> str:
    """Launch a training that is to be disturbed, and return once it is in the middle of it."""
    task = {"arguments": ["--steps", "150", "--kept", str(shared)]}
    run_id = submit(yard, "spark", folder, task=task, restarts={"max": 1, "backoff": "1s"})
    yard.wait_for(lambda: 10 in losses(lines(yard, run_id)), lambda: str(lines(yard, run_id)), LIMIT_S)
    return run_id


def wait_for_recovery(yard: Yard, run_id: str) -> Document:
    """Wait until the run has succeeded by its second attempt, which goes on; return the cause of the first's end."""
    ended = yard.wait_for_end(run_id, LIMIT_S)
    assert ended["status"] == "SUCCEEDED", (ended["reason"], lines(yard, run_id)[-40:])
    first, _ = yard.attempts(run_id)
    begun = [line for line in lines(yard, run_id) if " begins with step " in line]
    assert len(begun) == 4 and not any(line.endswith(" 1") for line in begun[2:]), begun
    cause: Document = first["cause"]
    return cause


def test_two_processes_have_the_losses_of_a_training_without_spark(yard: Yard, tmp_path: Path) -> None:
    run_id = run(yard, "spark", tmp_path)
    found = losses(lines(yard, run_id))
    (tmp_path / "alone.py").write_text(ALONE)
    # Two processes write to one pipe, each line at once; torchrun's own Python would write its end by itself.
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"]
    words += [sys.executable, str(tmp_path / "alone.py")]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES / "spark"), "PYTHONUNBUFFERED": ""}
    alone = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout
    expected = losses(alone.splitlines())
    assert len(expected) == 20
    assert {step: sorted(two) for step, two in found.items()} == {step: sorted(two) for step, two in expected.items()}
    assert yard.losses(run_id) == {step: set(two) for step, two in expected.items()}  # the SDK's, of both
    assert processes_of(yard, run_id, "java") == []


def test_a_killed_executor_is_named_and_the_run_goes_on(yard: Yard, tmp_path: Path, shared: Path) -> None:
    run_id = submit_long(yard, tmp_path, shared)
    processes_of(yard, run_id, "CoarseGrainedExecutorBackend")[0].kill()
    cause = wait_for_recovery(yard, run_id)
    assert cause["class"] == "killed" and "lost a process (ExecutorLostFailure" in cause["sentence"], cause


def test_a_killed_process_of_torch_is_named_and_the_run_goes_on(yard: Yard, tmp_path: Path, shared: Path) -> None:
    run_id = submit_long(yard, tmp_path, shared)
    [victim] = [one for one in processes_of(yard, run_id, "train.py") if one.environ().get("LOCAL_RANK") == "0"
                and one.environ()["RANK"] == "1"]  # fmt: skip
    victim.kill()
    cause = wait_for_recovery(yard, run_id)
    assert cause["class"] == "killed" and "Signal 9 (SIGKILL)" in cause["sentence"], cause


def test_a_killed_rank_is_named_and_the_run_goes_on(yard: Yard, tmp_path: Path, shared: Path) -> None:
    run_id = submit_long(yard, tmp_path, shared)
    [_, second] = yard.attempts(run_id)[0]["placements"]
    os.kill(second["ranks"][0]["pid"], signal.SIGKILL)
    cause = wait_for_recovery(yard, run_id)
    assert cause["class"] == "killed" and cause["sentence"].startswith("Rank 1 on "), cause


def test_a_stop_leaves_no_process(yard: Yard, tmp_path: Path, shared: Path) -> None:
    run_id = submit_long(yard, tmp_path, shared)
    assert len(processes_of(yard, run_id, "java")) == 6  # master, driver, two workers, two executors
    yard.post(f"/runs/{run_id}/stop")
    assert yard.wait_for_end(run_id)["status"] == "CANCELLED"
    yard.wait_for(lambda: not processes_of(yard, run_id, ""), lambda: str(processes_of(yard, run_id, "")), 60)


def test_an_error_in_a_process_is_the_runs(yard: Yard, tmp_path: Path) -> None:
    texts = {"train.py": FAILS, "beside.py": BESIDE}
    run_id = submit(yard, "spark", tmp_path, texts, task={"arguments": []}, restarts={"max": 1})
    assert yard.wait_for_end(run_id, LIMIT_S)["status"] == "FAILED", lines(yard, run_id)
    assert "failed with ValueError: no such layer (rank 1 of TorchDistributor)" in yard.sentence(run_id)
    assert len(yard.attempts(run_id)) == 1


def test_a_node_without_java_says_so(yard: Yard, tmp_path: Path) -> None:
    task = {"environment": {"JAVA_HOME": "/nowhere"}}
    run_id = submit(yard, "spark", tmp_path, task=task, restarts={"max": 0})
    assert yard.wait_for_end(run_id, LIMIT_S)["status"] == "FAILED"
    assert "Spark needs java" in yard.sentence(run_id)

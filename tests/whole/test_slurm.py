"""A whole Trainyard with a real Slurm of two machines: runs, limits, preemption, failures, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.slurm import Slurm, running_slurm
from tests.up_process import ROOT, Up
from tests.whole.runs import Document, Yard, example

pytestmark = pytest.mark.extended  # minutes of several processes


class SlurmYard(Yard):
    def __init__(self, up: Up, slurm: Slurm) -> None:
        super().__init__(up)
        self.slurm = slurm

    def make_cluster(self, name: str, **settings: object) -> None:
        body = {
            "name": name,
            "engine": "slurm",
            "projects": ["default"],
            "settings": {
                "folder": str(self.slurm.shared),
                "slurm_conf": str(self.slurm.conf),
                "machines": 2,
                **settings,
            },
        }
        self.post("/clusters", body)

    def wait_for(self, is_true: Callable[[], object], words: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < deadline, words
            time.sleep(0.2)

    def wait_until_nothing_is_left(self) -> None:
        self.wait_for(lambda: not self.slurm.queue(), "a job is left", 90)

    def job_of(self, run_id: str) -> str:
        """Return the id of the job of the run's newest attempt."""
        self.wait_for(self.slurm.queue, f"no job: {self.run(run_id)['reason']}")
        return self.slurm.queue()[-1]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with running_slurm() as made:
        yield made


@pytest.fixture(scope="module")
def yard(slurm: Slurm, running_trainyard: Up) -> Iterator[SlurmYard]:
    with SlurmYard(running_trainyard, slurm) as made:
        made.make_cluster("hpc", partition="main")
        yield made
        made.stop_what_is_left()


def small(**train: object) -> Document:
    """``hello-gpt`` with a model that takes milliseconds a step."""
    document = example("hello-gpt", **{"steps": 40, "batch_size": 4, **train})
    document["task"]["model"] = {"layers": 1, "width": 32, "heads": 2, "context": 32}
    return {**document, "cluster": "hpc"}


def losses(yard: Yard, run_id: str) -> list[float]:
    data = yard.get(f"/runs/{run_id}/series/data", name="train/loss", points=10_000)
    return [value for series in data["series"] for value in series["value"]]


def test_a_run_on_slurm_ends_as_it_does_on_nodes_that_stay(yard: SlurmYard) -> None:
    there = yard.submit(small())
    here = yard.submit({**small(), "cluster": "local"})
    for run in (there, here):
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert losses(yard, there) == losses(yard, here)
    yard.wait_until_nothing_is_left()
    yard.wait_for(lambda: not list((yard.slurm.shared / "machines").glob("nodes/*")), "a node's folder is left")
    yard.wait_for(lambda: not yard.get("/nodes", cluster="hpc")["items"], "a node is left in the list")


def test_scancel_cancels_the_run_and_says_so(yard: SlurmYard) -> None:
    run = yard.submit(small(steps=100_000))
    yard.wait_for_step(run, 5)
    yard.slurm.call("scancel", yard.job_of(run))
    ended = yard.wait_for_end(run)
    assert ended["status"] == "CANCELLED", ended["reason"]
    assert "Slurm's own tools" in ended["reason"]["sentence"]
    yard.wait_until_nothing_is_left()


def attempts(yard: Yard, run_id: str) -> list[Document]:
    found: list[Document] = yard.get(f"/runs/{run_id}/attempts")["items"]
    return sorted(found, key=lambda one: one["number"])


def wait_for_attempt(yard: SlurmYard, run_id: str, number: int, step: int) -> None:
    yard.wait_for(
        lambda: len(attempts(yard, run_id)) >= number, f"no attempt {number}: {yard.run(run_id)['reason']}", 90
    )
    yard.wait_for_step(run_id, step, 90)


def long_run() -> Document:
    document = small(steps=200_000)
    return {**document, "checkpoint": {"every_steps": 20}}


def test_a_notice_saves_a_checkpoint_and_another_job_goes_on(yard: SlurmYard) -> None:
    """What `--signal` does before the time limit, and a person may do at any time."""
    run = yard.submit(long_run())
    step = yard.wait_for_step(run, 30)["step"]
    job = yard.job_of(run)
    yard.slurm.call("scancel", "--signal=URG", job)
    wait_for_attempt(yard, run, 2, step + 5)
    first = attempts(yard, run)[0]
    assert first["cause"]["class"] == "preempted", first
    assert yard.job_of(run) != job
    yard.post(f"/runs/{run}/stop")
    assert yard.wait_for_end(run)["status"] == "CANCELLED"
    yard.wait_until_nothing_is_left()


def test_a_job_that_is_preempted_goes_on_once_there_is_room(yard: SlurmYard) -> None:
    run = yard.submit(long_run())
    yard.wait_for_step(run, 5)
    words = ("--partition=urgent", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4", "--wrap=sleep 12")
    yard.slurm.call("sbatch", "--chdir=/tmp", "--output=/dev/null", *words)
    wait_for_attempt(yard, run, 2, 10)
    first = attempts(yard, run)[0]
    assert first["cause"]["class"] in ("preempted", "interrupted"), first
    yard.post(f"/runs/{run}/stop")
    yard.wait_for_end(run)
    yard.wait_until_nothing_is_left()


def test_a_machine_that_fails_costs_an_attempt(yard: SlurmYard) -> None:
    run = yard.submit(long_run())
    yard.wait_for_step(run, 5)
    yard.slurm.call("scontrol", "update", "nodename=c2", "state=down", "reason=test")
    try:
        yard.wait_for(lambda: attempts(yard, run)[0]["ended_at"], "the attempt did not end")
        first = attempts(yard, run)[0]
        assert first["cause"]["class"] in ("node-lost", "interrupted"), first
        yard.wait_for(lambda: "machines" in yard.run(run)["reason"]["sentence"].lower(), "no reason", 60)
    finally:
        yard.slurm.call("scontrol", "update", "nodename=c2", "state=resume")
    wait_for_attempt(yard, run, 2, 8)
    yard.post(f"/runs/{run}/stop")
    yard.wait_for_end(run)
    yard.wait_until_nothing_is_left()


def test_a_run_never_notices_that_the_controller_is_started_again(yard: SlurmYard) -> None:
    run = yard.submit(long_run())
    step = yard.wait_for_step(run, 5)["step"]
    yard.slurm.stop_program("slurmctld", kill=True)
    later = yard.wait_for_step(run, step + 100)
    assert later["status"] == "RUNNING"
    yard.slurm.start_controller()
    assert yard.wait_for_step(run, later["step"] + 20)["status"] == "RUNNING"
    assert len(attempts(yard, run)) == 1
    yard.post(f"/runs/{run}/stop")
    yard.wait_for_end(run)
    yard.wait_until_nothing_is_left()


def test_a_run_waits_in_words_and_stopping_it_empties_the_queue(yard: SlurmYard) -> None:
    words = ("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4", "--wrap=sleep 300")
    other = yard.slurm.call("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", *words).strip()
    try:
        run = yard.submit(small())
        yard.wait_for(lambda: "(Resources)" in sentence(yard, run), sentence(yard, run))
        assert sentence(yard, run).startswith("Waiting for Slurm on cluster hpc, job ")
        yard.slurm.stop_program("slurmctld")
        yard.wait_for(lambda: "asked again" in sentence(yard, run), sentence(yard, run))
        yard.slurm.start_controller()
        yard.wait_for(lambda: "job" in sentence(yard, run), sentence(yard, run))
        yard.post(f"/runs/{run}/stop")
        assert yard.wait_for_end(run)["status"] == "CANCELLED"
        yard.wait_for(lambda: yard.slurm.queue() == [other], "its job is left")
    finally:
        yard.slurm.call("scancel", other)
    yard.wait_until_nothing_is_left()


def sentence(yard: Yard, run_id: str) -> str:
    return str(yard.run(run_id)["reason"]["sentence"])


def test_a_partition_that_is_gone_fails_the_run_with_what_to_do(yard: SlurmYard) -> None:
    yard.make_cluster("nowhere", partition="gone")
    run = yard.submit({**small(), "cluster": "nowhere"})
    ended = yard.wait_for_end(run)
    assert ended["status"] == "FAILED"
    assert "Invalid partition name" in ended["reason"]["sentence"], ended["reason"]
    assert "Its partition is 'gone': change that where cluster nowhere is edited." in ended["reason"]["sentence"]
    assert not yard.slurm.queue()


def test_a_job_that_ends_before_its_nodes_join_fails_with_what_to_do(yard: SlurmYard) -> None:
    yard.make_cluster("broken", python="/no/such/python")
    run = yard.submit({**small(), "cluster": "broken"})
    ended = yard.wait_for_end(run)
    assert ended["status"] == "FAILED"
    assert "before its nodes had joined. `trainyard doctor --cluster broken`" in ended["reason"]["sentence"]
    yard.wait_for(lambda: not yard.slurm.queue(), "a job is left")


def test_control_killed_again_and_again_submits_one_job(yard: SlurmYard) -> None:
    run = yard.submit(small(steps=400))
    for _ in range(3):
        time.sleep(0.7)
        os.kill(yard.up.processes()["control"], signal.SIGKILL)
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    yard.wait_until_nothing_is_left()
    names = yard.slurm.call("squeue", "--states=all", "-h", "-o", "%j").split()
    assert sum(name.endswith(attempts(yard, run)[0]["id"]) for name in names) == 1


def doctor(yard: SlurmYard, cluster: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRAINYARD_HOME": str(yard.up.home), "PUBLIC_URL": yard.up.url}
    words = [sys.executable, "-m", "dashboard.doctor", "--cluster", cluster]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def test_the_doctor_finds_a_cluster_ready_and_says_what_to_mend(yard: SlurmYard) -> None:
    well = doctor(yard, "hpc")
    assert (well.returncode, well.stdout.count("FAILED")) == (0, 0), well.stdout + well.stderr
    assert "A short job ran on 2 of 2 machines" in well.stdout
    for name, step, words in (
        ("nowhere", "partition", "where the cluster is edited"),
        ("broken", "job", "did not run"),
    ):
        ill = doctor(yard, name)
        assert ill.returncode == 1
        assert f"FAILED  {step}" in ill.stdout and words in ill.stdout, ill.stdout
    assert "there are: " in doctor(yard, "unknown").stderr

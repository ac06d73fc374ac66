"""A whole Trainyard with a real Slurm of two machines: runs, limits, preemption, failures, and what is left of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.slurm import Slurm, running_slurm
from tests.up_process import Up
from tests.whole.runs import Document, Yard, example

pytestmark = pytest.mark.xdist_group("slurm")


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
        self.wait_for(lambda: not self.slurm.queue(), "a job is left", 60)
        self.wait_for(lambda: not list((self.slurm.shared / "machines").glob("nodes/*")), "a node's folder is left")

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
    assert not yard.get("/nodes", cluster="hpc")["items"]


def test_scancel_cancels_the_run_and_says_so(yard: SlurmYard) -> None:
    run = yard.submit(small(steps=100_000))
    yard.wait_for_step(run, 5)
    yard.slurm.call("scancel", yard.job_of(run))
    ended = yard.wait_for_end(run)
    assert ended["status"] == "CANCELLED", ended["reason"]
    assert "Slurm's own tools" in ended["reason"]["sentence"]
    yard.wait_until_nothing_is_left()

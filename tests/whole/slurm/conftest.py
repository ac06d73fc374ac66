"""A whole Trainyard with a real Slurm of four machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.slurm import Slurm, running_slurm
from tests.up_process import Up
from tests.whole.runs import Document, Yard, example


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

    def wait_for(self, is_true: Callable[[], object], words: str | Callable[[], str], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < deadline, words() if callable(words) else words
            time.sleep(0.2)

    def take_all_machines(self, seconds: float, partition: str = "main") -> str:
        """Submit a job of somebody else that needs every machine, and return its id."""
        words = ("--parsable", f"--partition={partition}", f"--nodes={len(self.slurm.names)}", "--ntasks-per-node=1")
        words += ("--cpus-per-task=4", "--chdir=/tmp", "--output=/dev/null", f"--wrap=sleep {seconds}")
        return self.slurm.call("sbatch", *words).strip()

    def wait_until_nothing_is_left(self) -> None:
        self.wait_for(lambda: not self.slurm.queue(), "a job is left")

    def job_of(self, run_id: str) -> str:
        """Return the id of the job of the run's newest attempt, once it is in the queue."""
        found: list[str] = []

        def is_there() -> bool:
            newest = self.attempts(run_id)[-1:]
            found[:] = self.slurm.job_ids(newest[0]["id"]) if newest else []
            return bool(found)

        self.wait_for(is_there, lambda: f"no job: {self.run(run_id)['reason']}")
        return found[-1]

    def attempts(self, run_id: str) -> list[Document]:
        found: list[Document] = self.get(f"/runs/{run_id}/attempts")["items"]
        return sorted(found, key=lambda one: one["number"])

    def wait_for_attempt(self, run_id: str, number: int, step: int) -> None:
        self.wait_for(
            lambda: len(self.attempts(run_id)) >= number,
            lambda: f"no attempt {number}: {self.run(run_id)['reason']}",
            180,
        )
        self.wait_for_step(run_id, step, 180)

    def sentence(self, run_id: str) -> str:
        return str(self.run(run_id)["reason"]["sentence"])

    def end(self, run_id: str) -> None:
        """Stop the run, and wait until Slurm has nothing of it."""
        self.post(f"/runs/{run_id}/stop")
        assert self.wait_for_end(run_id)["status"] == "CANCELLED"
        self.wait_until_nothing_is_left()

    def losses(self, run_id: str) -> dict[int, set[float]]:
        """Return the losses of each step: more than one where attempts differ."""
        data = self.get(f"/runs/{run_id}/series/data", name="train/loss", points=10_000)
        found: dict[int, set[float]] = {}
        for series in data["series"]:
            assert series["kind"] == "raw"
            for step, value in zip(series["step"], series["value"], strict=True):
                found.setdefault(step, set()).add(value)
        return found


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    with running_slurm(4) as made:
        yield made


@pytest.fixture(scope="session")
def yard(slurm: Slurm, running_trainyard: Up) -> Iterator[SlurmYard]:
    with SlurmYard(running_trainyard, slurm) as made:
        made.make_cluster("hpc", partition="main", machines=4)
        made.make_cluster("nowhere", partition="gone")
        made.make_cluster("broken", python="/no/such/python")
        yield made
        made.stop_what_is_left()


@pytest.fixture(autouse=True)
def nothing_of_one_test_holds_up_the_next(yard: SlurmYard) -> Iterator[None]:
    yield
    yard.stop_what_is_left()


def small(**train: object) -> Document:
    """``hello-gpt`` with a model that takes milliseconds a step."""
    document = example("hello-gpt", **{"steps": 40, "batch_size": 4, **train})
    document["task"]["model"] = {"layers": 1, "width": 32, "heads": 2, "context": 32}
    return {**document, "cluster": "hpc"}


def long_run() -> Document:
    return {**small(steps=200_000), "checkpoint": {"every_steps": 20}}

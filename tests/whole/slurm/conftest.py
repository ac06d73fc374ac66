"""A whole Trainyard with a real Slurm of four machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm import Slurm, running_slurm
from tests.up_process import Up
from tests.whole.runs import EngineYard


class SlurmYard(EngineYard):
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

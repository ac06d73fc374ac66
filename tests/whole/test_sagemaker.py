"""A whole Trainyard with moto's server in the place of AWS, whose training jobs are processes of this machine.

Nothing of this was run on AWS: `tests/aws/moto_server.py` says what moto does, and what was added to it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.aws.account import SECRET_KEY, Account, running_account
from tests.servers import short_folder
from tests.up_process import Up
from tests.whole.doctor import doctor
from tests.whole.runs import EngineYard, long_run, small

pytestmark = pytest.mark.extended  # minutes of several processes


class SageMakerYard(EngineYard):
    patience_s = 240.0

    def __init__(self, up: Up, account: Account) -> None:
        super().__init__(up)
        self.account = account

    def make_cluster(self, name: str, **settings: object) -> None:
        made = self.account.settings(cpus_per_slot=1, secret_access_key=SECRET_KEY, **settings)
        body = {"name": name, "engine": "sagemaker", "projects": ["default"], "settings": made}
        self.post("/clusters", body)

    def wait_until_nothing_is_left(self) -> None:
        self.wait_for(
            lambda: not self.account.open_jobs() and not self.account.secrets(),
            lambda: f"left: {self.account.open_jobs()} {self.account.secrets()}",
        )


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    trial = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "true"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("machines need `unshare` and root")
    with short_folder("ty-aws-") as folder, running_account(folder) as made:
        made.make_role()
        yield made


@pytest.fixture(scope="module")
def yard(account: Account, running_trainyard: Up) -> Iterator[SageMakerYard]:
    with SageMakerYard(running_trainyard, account) as made:
        made.make_cluster("cloud")
        yield made
        made.stop_what_is_left()


@pytest.fixture(autouse=True)
def nothing_of_one_test_holds_up_the_next(yard: SageMakerYard) -> Iterator[None]:
    yield
    yard.account.faults()
    yard.stop_what_is_left()


def test_a_run_in_a_training_job_ends_as_it_does_on_nodes_that_stay(yard: SageMakerYard) -> None:
    there = yard.submit(small("cloud"))
    here = yard.submit(small("local"))
    for run in (there, here):
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert yard.losses(there) == yard.losses(here)
    yard.wait_until_nothing_is_left()


def test_a_run_waits_in_words_and_its_job_stopped_by_hand_cancels_it(yard: SageMakerYard) -> None:
    yard.account.faults(waits=["LaunchingMLInstances", "Insufficient capacity"])
    run = yard.submit(long_run("cloud"))
    yard.wait_for_words(run, "AWS is starting its machines: Insufficient capacity (LaunchingMLInstances)")
    yard.account.faults()
    yard.wait_for_step(run, 5)
    (job,) = yard.account.open_jobs()
    yard.account.client("sagemaker").stop_training_job(TrainingJobName=job)
    ended = yard.wait_for_end(run)
    assert ended["status"] == "CANCELLED" and "AWS' own tools" in ended["reason"]["sentence"], ended["reason"]
    yard.wait_until_nothing_is_left()


def test_spot_machines_that_are_taken_back_save_and_another_job_goes_on(yard: SageMakerYard) -> None:
    yard.make_cluster("spot", spot=True)
    run = yard.submit(long_run("spot"))
    step = int(yard.wait_for_step(run, 30)["step"])
    yard.account.faults(takes_back=True)
    yard.wait_for(lambda: yard.attempts(run)[0]["ended_at"], "the attempt did not end")
    yard.account.faults()
    yard.wait_for_attempt(run, 2, step + 5)
    first = yard.attempts(run)[0]
    assert first["cause"]["class"] == "preempted", first["cause"]
    yard.end(run)


def test_a_refusal_fails_the_run_and_a_killed_control_makes_one_job(yard: SageMakerYard) -> None:
    yard.account.faults(refusal=["ValidationException", "Could not access the role"])
    ended = yard.wait_for_end(yard.submit(small("cloud")))
    assert ended["status"] == "FAILED" and "Could not access the role" in ended["reason"]["sentence"]
    yard.account.faults()
    run = yard.submit(small("cloud"))
    yard.kill_control()
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert len(yard.attempts(run)) == 1
    yard.wait_until_nothing_is_left()


def test_the_doctor_looks_without_cost_and_runs_a_job_where_it_is_accepted(yard: SageMakerYard) -> None:
    found = doctor(yard.up, "cloud")
    assert (found.returncode, yard.account.open_jobs()) == (0, []), found.stdout + found.stderr
    assert "--accept-cost" in found.stdout
    found = doctor(yard.up, "cloud", "--accept-cost")
    assert "A short job ran on 2 machines" in found.stdout, found.stdout + found.stderr

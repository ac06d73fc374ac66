"""Training jobs of moto's server: submitted once, read, stopped. Nothing of it was run on AWS."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runs.causes.allocations import EndKind
from runs.engines.findings import Finding, Probe
from runs.engines.machine_system import JobState, SystemJob
from runs.engines.refusals import SystemAway, SystemRefused, until_failed
from runs.engines.sagemaker.aws import Aws
from runs.engines.sagemaker.engine import SageMakerEngine, SageMakerSystem
from runs.engines.sagemaker.settings import SageMakerSettings
from tests.runs.engines.sagemaker.conftest import ORIGIN, REQUEST

pytestmark = pytest.mark.extended  # moto takes seconds to start
JOB, SECRET = "trainyard-0123456789ab-abc123", "trainyard/0123456789ab/abc123"
Make = Callable[..., SageMakerSystem]


def until(is_true: Callable[[], object]) -> None:
    """moto's jobs are looked at ten times a second, or less often on a machine with much to do."""
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def seen(system: SageMakerSystem, is_due: Callable[[SystemJob], bool]) -> SystemJob:
    """Return the one job once it is so."""
    until(lambda: all(is_due(job) for job in system.jobs()))
    (job,) = system.jobs()
    return job


def test_two_submissions_make_one_job_whose_description_holds_no_token(system: SageMakerSystem, account: Any) -> None:
    assert (system.submit(REQUEST), system.submit(REQUEST)) == (JOB, JOB)
    assert account.open_jobs() == [JOB]
    described = account.client("sagemaker").describe_training_job(TrainingJobName=JOB)
    assert "join_" not in json.dumps(described, default=str)
    secret = account.client("secretsmanager").get_secret_value(SecretId=SECRET)
    assert json.loads(secret["SecretString"]) == {"tokens": ["join_one", "join_two"]}
    assert described["ResourceConfig"]["InstanceCount"] == 2
    assert described["VpcConfig"]["Subnets"] == ["subnet-0123456789abcdef0"]


def test_a_job_waits_in_words_and_cancelling_it_leaves_nothing(system: SageMakerSystem, account: Any) -> None:
    system.submit(REQUEST)
    account.faults(waits=["LaunchingMLInstances", "Insufficient capacity"])
    job = seen(system, lambda job: job.reason == "LaunchingMLInstances")
    assert (job.attempt, job.state) == ("abc123", JobState.PENDING)
    assert job.sentence == "AWS is starting its machines: Insufficient capacity (LaunchingMLInstances)."
    system.cancel(JOB)
    until(lambda: not account.open_jobs())
    assert (account.secrets(), system.jobs()) == ([], [])
    system.cancel(JOB)
    found = system.find(JOB)
    assert found is not None and (found.state, found.end) == (JobState.OVER, EndKind.CANCELLED)
    assert system.find("trainyard-0123456789ab-unknown") is None


def test_a_submission_that_was_cut_off_behind_the_secret_is_completed(system: SageMakerSystem, account: Any) -> None:
    account.client("secretsmanager").create_secret(Name=SECRET, SecretString='{"tokens":["join_one","join_two"]}')
    (job,) = system.jobs()
    assert (job.id, job.state, job.is_incomplete) == (JOB, JobState.PENDING, True)
    system.submit(REQUEST)
    (job,) = system.jobs()
    assert not job.is_incomplete and account.open_jobs() == [JOB]


def test_a_job_that_failed_is_listed_until_its_secret_is_gone(system: SageMakerSystem, account: Any) -> None:
    account.faults(failure="CapacityError: Unable to provision requested ML compute capacity.")
    system.submit(REQUEST)
    job = seen(system, lambda job: job.state == JobState.OVER)
    assert (job.end, job.is_kept) == (EndKind.NODE_FAILED, True)
    assert "AWS has no machines of this type now" in job.end_sentence
    system.cancel(JOB)
    assert (system.jobs(), account.secrets()) == ([], [])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ResourceLimitExceeded", SystemAway),
        ("ThrottlingException", SystemAway),
        ("ValidationException", SystemRefused),
        ("AccessDeniedException", SystemRefused),
    ],
)
def test_what_passes_is_asked_again_and_what_does_not_leaves_no_secret(
    system: SageMakerSystem, account: Any, code: str, kind: type[Exception]
) -> None:
    account.faults(refusal=[code, "The account-level limit is 0 Instances."])
    with pytest.raises(kind, match=rf"limit is 0 Instances \({code}\)"):
        system.submit(REQUEST)
    assert bool(account.secrets()) == (kind is SystemAway)


def test_aws_that_does_not_answer_and_a_key_without_its_secret_are_said(make_system: Make) -> None:
    with pytest.raises(SystemAway, match=r"AWS cannot be asked: Could not connect"):
        make_system(endpoint="http://127.0.0.1:9").jobs()
    settings = make_system()._settings
    with pytest.raises(SystemAway, match="The secret of access key AKIA"):
        SageMakerSystem(settings, ORIGIN, Aws(settings, "")).jobs()


def test_boto3_finds_wrong_requests_by_aws_own_model(system: SageMakerSystem) -> None:
    settings = dataclasses.replace(system._settings, subnets=[])
    with pytest.raises(SystemRefused, match=r"VpcConfig\.Subnets, value: 0, valid min length: 1"):
        SageMakerSystem(settings, ORIGIN, system._aws).submit(REQUEST)


def findings(account: Any, **changes: Any) -> dict[str, Finding]:
    from tests.aws.account import SECRET_KEY

    settings = SageMakerSettings.of(SageMakerEngine().checked(account.settings(**changes)))
    return {
        one.step: one
        for one in until_failed(SageMakerSystem(settings, ORIGIN, Aws(settings, SECRET_KEY)).steps(Probe("", "")))
    }


@pytest.fixture
def with_role(account: Any) -> Iterator[Any]:
    account.make_role()
    yield account


def test_the_doctor_finds_a_cluster_ready_and_runs_no_job_unasked(with_role: Any) -> None:
    found = findings(with_role)
    assert [one.is_fine for one in found.values()] == [True, True, True, True, None]
    assert list(found) == ["credentials", "SageMaker", "secrets", "role", "job"]
    assert "--accept-cost" in found["job"].sentence and with_role.open_jobs() == []


def test_the_doctor_says_what_is_wrong_with_the_role(account: Any) -> None:
    assert "There is no role training" in findings(account)["role"].sentence
    account.make_role("ec2.amazonaws.com")
    assert "SageMaker may not use role training" in findings(account)["role"].sentence
    other = "arn:aws:iam::999999999999:role/training"
    assert "belongs to account 999999999999" in findings(account, role=other)["role"].sentence

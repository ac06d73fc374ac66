"""Step by step, whether a SageMaker cluster can run what is launched on it. A step that needs an earlier one is left
out where that failed. AWS bills a training job, so the step that runs one is done on request alone."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator

from runs.engines.findings import Finding, Probe, machines, not_run, trusted_words
from runs.engines.machine_system import Origin, SystemAway
from runs.engines.sagemaker.aws import Aws, AWSRefusal
from runs.engines.sagemaker.documents import TrainingJob
from runs.engines.sagemaker.reasons import OVER, end_of, why_job_waits
from runs.engines.sagemaker.request import NAME, prefix_of, secrets_of, trial_job_of
from runs.engines.sagemaker.settings import SageMakerSettings

TRIAL_LIMIT_S = 570.0  # machines of AWS take minutes to start
EVERY_S = 2.0
SERVICE = "sagemaker.amazonaws.com"
RIGHTS_ADVICE = "docs/sagemaker.md has the policy that this server's credentials need."


def examine(settings: SageMakerSettings, origin: Origin, aws: Aws) -> Iterator[Finding]:
    """Yield what is found, one step after the other."""
    try:
        caller = aws.caller()
    except (SystemAway, AWSRefusal) as error:
        advice = "Enter an access key and its secret, or give this server a role or a profile."
        yield Finding("credentials", False, _words(error), advice)
        return
    yield Finding("credentials", True, f"AWS knows us in {settings.region} as {caller.arn}.")
    aws.begin()
    jobs = _jobs(origin, aws)
    yield jobs
    if jobs.is_fine:
        yield _secrets(origin, aws)
        yield _role(settings, aws, caller.account)
        advice = f"`trainyard doctor --cluster {origin.cluster} --accept-cost` runs one, for some minutes of its price."
        yield Finding("job", None, f"AWS bills a short job on {machines(min(2, settings.machines))}. {advice}")


def _jobs(origin: Origin, aws: Aws) -> Finding:
    try:
        number = len(aws.open_jobs(prefix_of(origin.mark)))
    except (SystemAway, AWSRefusal) as error:
        return Finding("SageMaker", False, _words(error), RIGHTS_ADVICE)
    return Finding("SageMaker", True, f"SageMaker answers and lets us list training jobs ({number} of ours are open).")


def _secrets(origin: Origin, aws: Aws) -> Finding:
    try:
        aws.secret_names(secrets_of(origin.mark))
    except (SystemAway, AWSRefusal) as error:
        return Finding("secrets", False, _words(error), RIGHTS_ADVICE)
    return Finding("secrets", True, "Secrets Manager answers and lets us list secrets; join tokens go there.")


def _role(settings: SageMakerSettings, aws: Aws, account: str) -> Finding:
    name = settings.role.rpartition("/")[2]
    owner = settings.role.split(":")[4]
    if owner != account:
        words = (
            f"The role belongs to account {owner} and we are in {account}: SageMaker takes roles of its own account."
        )
        return Finding("role", False, words, "Change the role where the cluster is edited.")
    try:
        role = aws.role(name)
    except AWSRefusal as error:
        if error.is_missing:
            return Finding("role", False, f"There is no role {name}.", "Change the role where the cluster is edited.")
        return Finding("role", None, f"Role {name} cannot be looked at: {_words(error)}")
    except SystemAway as error:
        return Finding("role", None, f"Role {name} cannot be looked at: {error}")
    if SERVICE not in json.dumps(role.assume_role_policy_document):
        advice = f"Let {SERVICE} assume it (its trust policy)."
        return Finding("role", False, f"SageMaker may not use role {name}.", advice)
    return Finding("role", True, f"SageMaker may use role {name}.")


def examine_billed(settings: SageMakerSettings, origin: Origin, aws: Aws, probe: Probe) -> Iterator[Finding]:
    """Run a job that lasts a second, on two machines, and let each try what a node does."""
    number = min(2, settings.machines)
    name = f"{NAME}-doctor-{secrets.token_hex(4)}"
    words = [*probe, *trusted_words()]
    aws.begin()
    try:
        aws.create_job(trial_job_of(settings, name, number, words, origin))
        job = _wait(aws, name)
    except (SystemAway, AWSRefusal) as error:
        yield not_run(number, _words(error), RIGHTS_ADVICE)
        return
    if job is None or job.training_job_status not in OVER:
        why = "it is not there any more." if job is None else why_job_waits(job).sentence
        aws.begin()
        aws.stop_job(name)
        yield Finding("job", False, f"A short job on {machines(number)} did not end: {why}", "It was stopped again.")
        return
    end = end_of(job)
    if end.kind is not None:
        advice = "Do the subnets and security groups lead to this server, its Valkey, and the file system?"
        yield Finding("job", False, end.sentence, advice)
        return
    yield Finding("job", True, f"A short job ran on {machines(number)}, which reach server, Valkey and file system.")


def _wait(aws: Aws, name: str) -> TrainingJob | None:
    """Return the job once it is over, or as it is when the time is up."""
    deadline = time.monotonic() + TRIAL_LIMIT_S
    while True:
        aws.begin()
        job = aws.job(name)
        if job is None or job.training_job_status in OVER or time.monotonic() > deadline:
            return job
        time.sleep(EVERY_S)


def _words(error: Exception) -> str:
    code = f" ({error.code})" if isinstance(error, AWSRefusal) else ""
    return f"{str(error).rstrip('.')}{code}."

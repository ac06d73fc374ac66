"""Reasons why a training job waits and why it ended, in words. Everything here is pure.

The words of SageMaker that are told apart here were taken from AWS' documentation, and not from jobs that we ran."""

import re
from datetime import timedelta

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobEnd, JobState, SystemJob, Words
from runs.engines.refusals import explained
from runs.engines.sagemaker.documents import TrainingJob

EXIT_CODE = re.compile(r"exit code:? *(-?[0-9]+)", re.IGNORECASE)
WAITS = {
    "Pending": "AWS looks for machines",
    "Starting": "AWS is preparing its machines",
    "LaunchingMLInstances": "AWS is starting its machines",
    "PreparingTrainingStack": "AWS is preparing its machines",
    "Downloading": "its machines mount the file system",
    "DownloadingTrainingImage": "its machines pull the image",
}
TAKEN_BACK = ("Interrupted", "Restarting")
# Machines and AWS' own errors: the run's policy decides whether it goes on.
MACHINE_PROBLEMS = ("CapacityError", "InternalServerError", "InternalError")


def why_job_waits(job: TrainingJob) -> Words:
    reason = job.secondary_status or "Pending"
    return Words(reason, explained(WAITS.get(reason, "it waits"), reason, job.message))


def is_taken_back(job: TrainingJob) -> bool:
    """Return whether AWS took the spot machines, and would start the job again on others, with used tokens."""
    return job.training_job_status == "InProgress" and any(job.had(status) for status in TAKEN_BACK)


def taken_back(job: TrainingJob) -> JobEnd:
    words = f"AWS took the spot machines of SageMaker job {job.training_job_name} back; the run goes on in another job"
    return JobEnd(EndKind.PREEMPTED, f"{words} (Interrupted).")


def end_of(job: TrainingJob) -> JobEnd:
    name, status = job.training_job_name, job.secondary_status
    if job.training_job_status == "Completed":
        return JobEnd(None, f"SageMaker job {name} ended.", 0)
    if any(job.had(word) for word in TAKEN_BACK):
        return taken_back(job)
    if job.had("MaxRuntimeExceeded"):
        words = f"SageMaker ended job {name} at its time limit; the run goes on in another job (MaxRuntimeExceeded)."
        return JobEnd(EndKind.TIME_LIMIT, words)
    if job.had("MaxWaitTimeExceeded"):
        words = f"SageMaker job {name} got no spot machines in the time that it may wait; the run asks again"
        return JobEnd(EndKind.PREEMPTED, f"{words} (MaxWaitTimeExceeded).")
    if job.training_job_status == "Stopped":
        words = f"SageMaker job {name} was stopped with AWS' own tools ({status or 'Stopped'})."
        return JobEnd(EndKind.CANCELLED, words)
    return _failed(job)


def _failed(job: TrainingJob) -> JobEnd:
    name, why = job.training_job_name, job.failure_reason
    found = EXIT_CODE.search(why)
    exit_code = int(found[1]) if found else None
    if why.startswith("CapacityError"):
        words = f"AWS has no machines of this type now for SageMaker job {name}"
        return JobEnd(EndKind.NODE_FAILED, explained(words, "CapacityError", _behind(why)))
    if why.startswith(MACHINE_PROBLEMS):
        words = f"A machine of SageMaker job {name} failed, or AWS did"
        return JobEnd(EndKind.NODE_FAILED, explained(words, why.partition(":")[0], _behind(why)))
    if exit_code == 137 or "out of memory" in why.lower() or "outofmemory" in why.lower():
        words = f"A machine of SageMaker job {name} had too little memory: choose a larger instance type"
        return JobEnd(EndKind.OUT_OF_MEMORY, explained(words, "exit code 137", _behind(why)), exit_code)
    return JobEnd(EndKind.ENDED, explained(f"SageMaker job {name} failed", "", why), exit_code)


def _behind(why: str) -> str:
    return why.partition(":")[2].strip()


# Training jobs as jobs of an engine.

OVER = ("Completed", "Failed", "Stopped")
AT_WORK = ("Training", "Uploading")


def job_of(job: TrainingJob, attempt: str, *, has_secret: bool = False) -> SystemJob:
    """``has_secret``: the secret with its tokens is still there, and goes once nobody waits for the job."""
    name = job.training_job_name
    if job.training_job_status in OVER:
        return SystemJob(name, attempt, JobState.OVER).ended(end_of(job), is_kept=has_secret)
    if job.secondary_status not in AT_WORK and job.training_job_status != "Stopping":
        return SystemJob(name, attempt, JobState.PENDING).waiting(why_job_waits(job))
    hosts = tuple(f"algo-{number + 1}" for number in range(job.resource_config.instance_count))
    started, limit = job.training_start_time, job.stopping_condition.max_runtime_in_seconds
    return SystemJob(
        name,
        attempt,
        JobState.RUNNING,
        hosts=hosts,
        started_at=started.timestamp() if started else None,
        ends_at=(started + timedelta(seconds=limit)).timestamp() if started and limit else None,
    )

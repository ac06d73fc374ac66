"""Training jobs as jobs of an engine. Everything here is pure."""

from __future__ import annotations

from datetime import timedelta

from runs.engines.machine_system import JobState, SystemJob
from runs.engines.sagemaker.documents import TrainingJob
from runs.engines.sagemaker.reasons import End, end_of, why_job_waits

OVER = ("Completed", "Failed", "Stopped")
AT_WORK = ("Training", "Uploading")


def job_of(job: TrainingJob, attempt: str, *, has_secret: bool = False) -> SystemJob:
    """``has_secret``: the secret with its tokens is still there, and goes once nobody waits for the job."""
    name = job.training_job_name
    if job.training_job_status in OVER:
        return ended(name, attempt, end_of(job), has_secret=has_secret)
    is_running = job.secondary_status in AT_WORK or job.training_job_status == "Stopping"
    if not is_running:
        words = why_job_waits(job)
        return SystemJob(name, attempt, JobState.PENDING, reason=words.reason, sentence=words.sentence)
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


def ended(name: str, attempt: str, end: End, *, has_secret: bool = False) -> SystemJob:
    return SystemJob(
        name,
        attempt,
        JobState.OVER,
        end=end.kind,
        end_sentence=end.sentence,
        exit_code=end.exit_code,
        is_kept=has_secret,
    )


def not_made(name: str, attempt: str) -> SystemJob:
    """Return a job of which there is the secret alone: its submission was cut off, and is done again."""
    return SystemJob(name, attempt, JobState.PENDING, sentence="it is being submitted.", is_incomplete=True)

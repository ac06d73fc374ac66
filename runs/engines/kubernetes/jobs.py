"""Jobs and pods of the API server as jobs of an engine. Everything here is pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from runs.causes.allocations import EndKind
from runs.engines.kubernetes.documents import Job, Pod
from runs.engines.kubernetes.manifests import ATTEMPT, ENDING, name_of
from runs.engines.kubernetes.reasons import end_of, end_of_pods
from runs.engines.machine_system import JobEnd, JobState, SystemJob
from trainyard.contract.base import JsonObject
from trainyard.grouping import grouped

# A pod on a machine that is out of contact is listed for ever. So long after its grace its ranks have ended by
# themselves: their lease is over.
GONE_AFTER_S = 600.0


def pods_by_attempt(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    return grouped((pod.metadata.label(ATTEMPT), pod) for pod in sorted(pods, key=lambda one: one.metadata.name))


def living(pods: Sequence[Pod], now: datetime) -> list[Pod]:
    """Return the pods of which processes may live."""
    return [pod for pod in pods if not pod.is_over and not _is_lost(pod, now)]


def job_of(job: Job, pods: Sequence[Pod], now: datetime) -> SystemJob:
    """Return the job as one that runs, is over, or is pending for a reason that is not said yet."""
    attempt = job.metadata.label(ATTEMPT)
    alive = living(pods, now)
    found = SystemJob(job.metadata.name, attempt, JobState.PENDING, hosts=_hosts(pods))
    failed = job.condition("Failed") or job.condition("FailureTarget")
    if alive and (failed or job.metadata.deletion_timestamp is not None):
        return replace(found, state=JobState.RUNNING)  # it is ending, and its pods save what they have
    over = replace(found, state=JobState.OVER, is_kept=True)
    if failed is not None:
        end = _recorded_end(job) or end_of(job.metadata.name, pods, failed)
        return replace(over, end=end.kind, end_sentence=end.sentence, exit_code=end.exit_code)
    if job.condition("Complete") is not None:
        taken = _recorded_end(job)  # a pod that is asked to end, and does, has succeeded
        sentence = f"Kubernetes job {found.id} ended." if taken is None else taken.sentence
        return replace(over, end=taken and taken.kind, end_sentence=sentence)
    running = [pod for pod in alive if pod.status.phase == "Running"]
    if len(running) + sum(pod.is_over for pod in pods) < (job.spec.completions or 1):
        return found
    ends_at = None
    if job.spec.active_deadline_seconds is not None and job.status.start_time is not None:
        ends_at = job.status.start_time.timestamp() + job.spec.active_deadline_seconds
    return replace(found, state=JobState.RUNNING, started_at=_started_at(pods), ends_at=ends_at)


def end_to_record(job: Job, pods: Sequence[Pod]) -> JsonObject | None:
    """Return the patch of a job whose machines are being taken, once for each job."""
    end = end_of_pods(pods)
    if end is None or end.kind == EndKind.ENDED or ENDING in (job.metadata.annotations or {}):
        return None
    return {"metadata": {"annotations": {ENDING: f"{end.kind} {end.sentence}"}}}


def _recorded_end(job: Job) -> JobEnd | None:
    kind, _, sentence = (job.metadata.annotations or {}).get(ENDING, "").partition(" ")
    return JobEnd(EndKind(kind), sentence) if kind in EndKind.__members__.values() else None


def orphans(jobs: Sequence[Job], pods: dict[str, list[Pod]], now: datetime) -> Iterator[SystemJob]:
    """Yield the jobs that were deleted and whose pods are still ending."""
    there = {job.metadata.label(ATTEMPT) for job in jobs}
    for attempt, members in pods.items():
        if attempt not in there and living(members, now):
            yield SystemJob(name_of(attempt), attempt, JobState.RUNNING, hosts=_hosts(members))


def deleted(job: str) -> SystemJob:
    """Return a job that is gone before its attempt was over: we had not asked for it."""
    sentence = f"Kubernetes job {job} was deleted with Kubernetes' own tools (`kubectl delete job`)."
    return SystemJob(job, "", JobState.OVER, end=EndKind.CANCELLED, end_sentence=sentence)


def _is_lost(pod: Pod, now: datetime) -> bool:
    ends = pod.metadata.deletion_timestamp
    return ends is not None and (now - ends).total_seconds() > GONE_AFTER_S


def _hosts(pods: Sequence[Pod]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name))


def _started_at(pods: Sequence[Pod]) -> float | None:
    """Return when the last of the pods started."""
    times = [
        container.state.running.started_at.timestamp()
        for pod in pods
        for container in pod.status.container_statuses or []
        if container.state.running is not None and container.state.running.started_at is not None
    ]
    return max(times, default=None)

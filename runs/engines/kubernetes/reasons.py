"""Jobs and pods of the API server as jobs of an engine: why they are not there yet, and why they ended, in words.
Everything here is pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from runs.causes.allocations import EndKind
from runs.engines.kubernetes.documents import Condition, Job, Notice, Pod, Workload
from runs.engines.kubernetes.manifests import ATTEMPT, ENDING, name_of
from runs.engines.machine_system import JobEnd, JobState, SystemJob, Words
from runs.engines.refusals import explained, quoted
from trainyard.contract.base import JsonObject
from trainyard.grouping import grouped

IMAGE_PROBLEMS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
     "RegistryUnavailable", "SignatureValidationFailed"}
)  # fmt: skip
CONFIG_PROBLEMS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError",
     "CrashLoopBackOff"}
)  # fmt: skip
MOUNT_PROBLEMS = {
    "FailedMount": "a volume of it is not mounted",
    "FailedAttachVolume": "a volume of it is not attached",
    "FailedCreatePodSandBox": "its machine cannot make its network",
}
# Reasons of the condition DisruptionTarget: what becomes of the attempt, and the words.
DISRUPTIONS = {
    "PreemptionByScheduler": (EndKind.PREEMPTED, "gave its machine to a pod of higher priority"),
    "EvictionByEvictionAPI": (EndKind.PREEMPTED, "evicted it, as for a machine that is drained"),
    "DeletionByTaintManager": (
        EndKind.NODE_FAILED,
        "took it off its machine, which is out of contact or not to be used",
    ),
    "DeletionByPodGC": (EndKind.NODE_FAILED, "removed it, since its machine is gone"),
}
# Reasons of a pod's status, as kubelets write them.
STATUS_REASONS = {
    "Evicted": (EndKind.NODE_FAILED, "evicted it from its machine"),
    "NodeShutdown": (EndKind.PREEMPTED, "ended it, since its machine is being shut down"),
    "Terminated": (EndKind.PREEMPTED, "ended it, since its machine is being shut down"),
    "Preempting": (EndKind.PREEMPTED, "gave its machine to a pod of higher priority"),
    "NodeLost": (EndKind.NODE_FAILED, "lost its machine"),
    "DeadlineExceeded": (EndKind.TIME_LIMIT, "ended it at its time limit"),
    "UnexpectedAdmissionError": (EndKind.NODE_FAILED, "could not start it on its machine"),
    "NodeAffinity": (EndKind.NODE_FAILED, "could not start it on its machine"),
}
# The first says why the rest ended.
ORDER = (EndKind.PREEMPTED, EndKind.NODE_FAILED, EndKind.TIME_LIMIT, EndKind.OUT_OF_MEMORY, EndKind.ENDED)
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
    recorded = _recorded_end(job)
    if failed is not None:
        return found.ended(recorded or end_of(job.metadata.name, pods, failed), is_kept=True)
    if job.condition("Complete") is not None:  # a pod that is asked to end, and does, has succeeded
        return found.ended(recorded or JobEnd(None, f"Kubernetes job {found.id} ended."), is_kept=True)
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


def why_pod_waits(pod: Pod, events: Sequence[Notice] = ()) -> Words:
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return _unscheduled(scheduled)
    for container in pod.containers:
        waiting = container.state.waiting
        if waiting is None or waiting.reason in ("ContainerCreating", "PodInitializing", ""):
            continue
        if waiting.reason in IMAGE_PROBLEMS:
            what = "its image cannot be pulled"
        else:
            what = f"its container {'cannot be started' if waiting.reason in CONFIG_PROBLEMS else 'waits'}"
        return Words(waiting.reason, explained(what, waiting.reason, waiting.message))
    for event in reversed(events):
        if event.reason in MOUNT_PROBLEMS:
            return Words(event.reason, explained(MOUNT_PROBLEMS[event.reason], event.reason, event.message))
    if scheduled is None:
        return Words("Pending", "the scheduler has not looked at it yet (Pending).")
    return Words("ContainerCreating", "its machine pulls the image and starts it (ContainerCreating).")


def why_job_waits(job: Job, events: Sequence[Notice]) -> Words:
    """Return why a job that is not suspended has no pods."""
    for event in reversed(events):
        if event.reason == "FailedCreate":
            quota = "exceeded quota" in event.message
            what = "the namespace's quota does not allow it" if quota else "Kubernetes does not make its pods"
            return Words("QuotaExceeded" if quota else event.reason, explained(what, event.reason, event.message))
    return Words("Pending", "Kubernetes is making its pods (Pending).")


def why_kueue_waits(workloads: Sequence[Workload], queue: str) -> Words:
    for workload in workloads:
        conditions = {one.type: one for one in workload.status.conditions or []}
        for kind in ("Admitted", "QuotaReserved"):
            found = conditions.get(kind)
            if found is not None and not found.is_true:
                reason = found.reason or "Pending"
                return Words(reason, explained(f"Kueue has it in queue {queue}", reason, found.message))
    return Words("Suspended", f"Kueue has not looked at it yet; its queue is {queue} (Suspended).")


def is_evicted_by_kueue(workloads: Sequence[Workload]) -> Condition | None:
    """Return why Kueue took the machines of a job that ran; None where it did not."""
    conditions = (one for workload in workloads for one in workload.status.conditions or [])
    return next((one for one in conditions if one.type == "Evicted" and one.is_true), None)


def end_of(job: str, pods: Sequence[Pod], condition: Condition | None) -> JobEnd:
    """Return why a job failed. ``condition`` is the job's own word, if it is still there."""
    if condition is not None and condition.reason == "DeadlineExceeded":
        words = f"Kubernetes ended job {job} at its time limit; the run goes on in another job."
        return JobEnd(EndKind.TIME_LIMIT, words)
    if (end := end_of_pods(pods)) is not None:
        return end
    if condition is not None and condition.reason == "PodFailurePolicy":  # its only rule is about machines
        words = f"Kubernetes took a machine of job {job}: {quoted(condition.message)}"
        return JobEnd(EndKind.PREEMPTED, f"{words} ({condition.reason}).")
    words = f": {quoted(condition.message)} ({condition.reason})" if condition is not None else ""
    return JobEnd(EndKind.ENDED, f"Kubernetes job {job} failed{words}.")


def end_of_pods(pods: Sequence[Pod]) -> JobEnd | None:
    """Return the end that explains the others."""
    ends = [end for pod in pods if (end := end_of_pod(pod)) is not None]
    return min(ends, key=lambda end: ORDER.index(end.kind), default=None)


def end_of_pod(pod: Pod) -> JobEnd | None:
    """Return why the pod ended, or is ending; None for one that goes on or ended well."""
    name, where = pod.metadata.name, f" on machine {pod.spec.node_name}" if pod.spec.node_name else ""
    target = pod.condition("DisruptionTarget")
    if target is not None and target.is_true and target.reason in DISRUPTIONS:
        kind, words = DISRUPTIONS[target.reason]
        return JobEnd(kind, _ended(f"Kubernetes {words}: pod {name}{where}", target.reason, ""))
    reason = pod.status.reason
    if reason in STATUS_REASONS or reason.startswith("OutOf"):
        kind, words = STATUS_REASONS.get(reason, STATUS_REASONS["UnexpectedAdmissionError"])
        return JobEnd(kind, _ended(f"Kubernetes {words}: pod {name}{where}", reason, pod.status.message))
    for container in pod.containers:
        ended = container.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if ended.reason == "OOMKilled":
            words = f"Pod {name}{where} used more memory than it may and was killed (OOMKilled)"
            return JobEnd(EndKind.OUT_OF_MEMORY, f"{words}; raise the cluster's memory.", ended.exit_code)
        words = f"Container {container.name} of pod {name}{where} ended with exit code {ended.exit_code}"
        return JobEnd(EndKind.ENDED, _ended(words, ended.reason, ended.message), ended.exit_code)
    if pod.status.phase == "Failed":
        return JobEnd(EndKind.ENDED, _ended(f"Pod {name}{where} failed", reason, pod.status.message))
    return None


def _unscheduled(condition: Condition) -> Words:
    if condition.reason == "SchedulingGated":
        return Words(condition.reason, explained("a gate keeps it from being scheduled", condition.reason, ""))
    # The scheduler's words on preemption follow the problem, and only repeat it.
    message = re.split(r"\.?,? (?:preemption:|no new claims to deallocate)", condition.message)[0]
    reason = condition.reason or "Unschedulable"
    return Words(reason, explained("no machine takes it", reason, message))


def _ended(what: str, reason: str, message: str) -> str:
    words = quoted(message)
    named = f" ({reason})" if reason and reason != "Error" else ""
    return f"{what}{named}: {words}." if words else f"{what}{named}."

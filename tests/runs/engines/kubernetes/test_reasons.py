"""Pods, jobs, events and Kueue's workloads as the API server shows them, and the words that follow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runs.causes.allocations import EndKind
from runs.engines.kubernetes.documents import Condition, Job, Notice, Pod, Workload
from runs.engines.kubernetes.reasons import (
    end_of,
    end_of_pod,
    end_to_record,
    is_evicted_by_kueue,
    job_of,
    orphans,
    pods_by_attempt,
    why_job_waits,
    why_kueue_waits,
    why_pod_waits,
)
from runs.engines.machine_system import JobState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(
    number: int = 0, phase: str = "Pending", *, node: str = "", ending_ago_s: float | None = None, **status: Any
) -> Pod:
    metadata = {"name": f"trainyard-a1-{number}-x", "labels": {"trainyard/attempt": "a1"}}
    if ending_ago_s is not None:
        metadata["deletionTimestamp"] = (NOW - timedelta(seconds=ending_ago_s)).isoformat()
    document = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, **status}}
    return msgspec.convert(document, Pod)


def job(*conditions: dict[str, str], **changes: Any) -> Job:
    metadata = {"name": "trainyard-a1", "labels": {"trainyard/attempt": "a1"}, **changes.pop("metadata", {})}
    spec = {"completions": 2, **changes.pop("spec", {})}
    status = {"conditions": list(conditions), "startTime": "2026-01-01T11:00:00Z"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Job)


def unscheduled(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{"name": "node", "state": {"waiting": {"reason": reason, "message": message}}}],
    }


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "node", "state": state}]}


def disrupted(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}]}


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (
            unscheduled(
                "0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {a: b}. "
                "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
            ),
            "no machine takes it: 0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated "
            "taint {a: b} (Unschedulable).",
        ),
        (
            unscheduled("0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1"),
            "no machine takes it: 0/1 nodes are available: 1 Insufficient cpu (Unschedulable).",
        ),
        (
            waiting("ErrImagePull", 'failed to pull and unpack image "trainyard:2": not found'),
            'its image cannot be pulled: failed to pull and unpack image "trainyard:2": not found (ErrImagePull).',
        ),
        (
            waiting("ImagePullBackOff", 'Back-off pulling image "trainyard:2"'),
            'its image cannot be pulled: Back-off pulling image "trainyard:2" (ImagePullBackOff).',
        ),
        (waiting("InvalidImageName"), "its image cannot be pulled (InvalidImageName)."),
        (
            waiting("CreateContainerConfigError", 'secret "wandb" not found'),
            'its container cannot be started: secret "wandb" not found (CreateContainerConfigError).',
        ),
        (waiting("ContainerCreating"), "its machine pulls the image and starts it (ContainerCreating)."),
        ({}, "the scheduler has not looked at it yet (Pending)."),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            "a gate keeps it from being scheduled (SchedulingGated).",
        ),
    ],
)
def test_why_a_pod_waits(status: dict[str, Any], sentence: str) -> None:
    assert why_pod_waits(pod(**status)).sentence == sentence


def event(reason: str, message: str) -> Notice:
    return msgspec.convert({"involvedObject": {}, "reason": reason, "message": message}, Notice)


def test_a_volume_that_is_not_mounted_is_named() -> None:
    happened = [event("Scheduled", ""), event("FailedMount", 'secret "a" not found')]
    words = why_pod_waits(pod(**waiting("ContainerCreating")), happened)
    assert words == ("FailedMount", 'a volume of it is not mounted: secret "a" not found (FailedMount).')


def test_a_quota_is_named() -> None:
    text = 'Error creating: pods "trainyard-a1-0-x" is forbidden: exceeded quota: team, requested: cpu=8, used: cpu=2'
    words = why_job_waits(job(), [event("FailedCreate", text)])
    assert words.reason == "QuotaExceeded" and "exceeded quota: team" in words.sentence
    assert why_job_waits(job(), []).sentence == "Kubernetes is making its pods (Pending)."


def workload(*conditions: dict[str, str]) -> Workload:
    return msgspec.convert({"metadata": {}, "status": {"conditions": list(conditions)}}, Workload)


def test_kueue_says_what_it_waits_for() -> None:
    held = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": "insufficient unused quota for cpu.",
    }
    words = why_kueue_waits([workload(held)], "team")
    assert words.sentence == "Kueue has it in queue team: insufficient unused quota for cpu (Pending)."
    assert "has not looked" in why_kueue_waits([], "team").sentence
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "by another"}
    assert is_evicted_by_kueue([workload(held)]) is None
    assert is_evicted_by_kueue([workload(held, evicted)]) is not None


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (ended(137, "OOMKilled"), EndKind.OUT_OF_MEMORY, "used more memory than it may and was killed (OOMKilled)"),
        (ended(1), EndKind.ENDED, "Container node of pod trainyard-a1-0-x on machine m1 ended with exit code 1."),
        (ended(127, "StartError", "no such file"), EndKind.ENDED, "exit code 127 (StartError): no such file."),
        (disrupted("PreemptionByScheduler"), EndKind.PREEMPTED, "gave its machine to a pod of higher priority"),
        (disrupted("EvictionByEvictionAPI"), EndKind.PREEMPTED, "evicted it, as for a machine that is drained"),
        (disrupted("DeletionByTaintManager"), EndKind.NODE_FAILED, "out of contact"),
        (disrupted("DeletionByPodGC"), EndKind.NODE_FAILED, "its machine is gone"),
        (
            {"reason": "Evicted", "message": "The node was low on resource: memory. "},
            EndKind.NODE_FAILED,
            "on machine m1 (Evicted): The node was low on resource: memory.",
        ),
        (
            {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."},
            EndKind.PREEMPTED,
            "imminent node shutdown",
        ),
        ({"reason": "NodeLost"}, EndKind.NODE_FAILED, "lost its machine"),
        ({"reason": "OutOfnvidia.com/gpu", "message": "Node didn't have enough"}, EndKind.NODE_FAILED, "didn't have"),
        ({}, EndKind.ENDED, "failed"),
    ],
)
def test_why_a_pod_ended(status: dict[str, Any], kind: EndKind, words: str) -> None:
    end = end_of_pod(pod(phase="Failed", node="m1", **status))
    assert end is not None and end.kind == kind and words in end.sentence and end.sentence.endswith(".")


def test_who_took_a_machine_comes_before_what_that_ended() -> None:
    pods = [pod(0, "Failed", **ended(143)), pod(1, "Failed", **disrupted("PreemptionByScheduler"))]
    assert end_of("trainyard-a1", pods, None).kind == EndKind.PREEMPTED
    late = Condition(type="Failed", status="True", reason="DeadlineExceeded")
    assert end_of("trainyard-a1", pods, late).kind == EndKind.TIME_LIMIT
    forgotten = Condition(type="Failed", status="True", reason="PodFailurePolicy", message="Pod x has condition")
    assert end_of("trainyard-a1", [], forgotten).kind == EndKind.PREEMPTED
    failed = Condition(type="Failed", status="True", reason="BackoffLimitExceeded", message="Job has reached the limit")
    assert end_of("trainyard-a1", [], failed).sentence.endswith("Job has reached the limit (BackoffLimitExceeded).")


FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": ""}


def test_a_job_runs_once_all_of_its_pods_do() -> None:
    running = {"containerStatuses": [{"name": "node", "state": {"running": {"startedAt": "2026-01-01T11:30:00Z"}}}]}
    one = [pod(0, "Running", node="m1", **running), pod(1)]
    assert job_of(job(), one, NOW).state == JobState.PENDING
    both = [one[0], pod(1, "Running", node="m2", **running)]
    seen = job_of(job(spec={"activeDeadlineSeconds": 7200}), both, NOW)
    assert (seen.state, seen.hosts) == (JobState.RUNNING, ("m1", "m2"))
    assert (seen.started_at, seen.ends_at) == (NOW.timestamp() - 1800, NOW.timestamp() + 3600)


def test_a_job_is_over_once_none_of_its_pods_lives() -> None:
    ending = pod(1, "Running", node="m2", ending_ago_s=-20)
    assert job_of(job(FAILED), [ending], NOW).state == JobState.RUNNING
    assert job_of(job(metadata={"deletionTimestamp": NOW.isoformat()}), [ending], NOW).state == JobState.RUNNING
    over = job_of(job(FAILED), [pod(0, "Failed", **ended(3))], NOW)
    assert (over.state, over.end, over.exit_code, over.is_kept) == (JobState.OVER, EndKind.ENDED, 3, True)
    (left,) = orphans([], pods_by_attempt([ending]), NOW)
    assert (left.id, left.state) == ("trainyard-a1", JobState.RUNNING)
    assert not list(orphans([job()], pods_by_attempt([ending]), NOW))


def test_a_pod_on_a_machine_that_is_lost_counts_until_its_ranks_lease_is_over() -> None:
    assert job_of(job(FAILED), [pod(0, "Running", ending_ago_s=300)], NOW).state == JobState.RUNNING
    assert job_of(job(FAILED), [pod(0, "Running", ending_ago_s=700)], NOW).state == JobState.OVER


def test_why_machines_were_taken_is_written_to_the_job_once_and_outlives_its_pods() -> None:
    patch = end_to_record(job(), [pod(0, "Running", node="m1", **disrupted("EvictionByEvictionAPI"))])
    assert patch is not None
    marked = job(FAILED, metadata=patch["metadata"])
    assert end_to_record(marked, [pod(0, "Running", **disrupted("PreemptionByScheduler"))]) is None
    over = job_of(marked, [], NOW)
    assert over.end == EndKind.PREEMPTED and "evicted it" in over.end_sentence and "m1" in over.end_sentence
    complete = job({"type": "Complete", "status": "True"}, metadata=patch["metadata"])
    assert job_of(complete, [], NOW).end == EndKind.PREEMPTED
    assert job_of(job({"type": "Complete", "status": "True"}), [], NOW).end is None

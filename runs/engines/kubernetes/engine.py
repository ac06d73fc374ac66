"""The engine ``kubernetes``."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import structlog
from django.conf import settings as django_settings

from runs.causes.allocations import EndKind
from runs.engines.allocating import AllocatingEngine
from runs.engines.findings import Finding, Probe
from runs.engines.kubernetes import jobs as pod_jobs
from runs.engines.kubernetes.api import Api, KubernetesRefusal, attempt
from runs.engines.kubernetes.doctor import ACCESS_ADVICE, examine
from runs.engines.kubernetes.documents import Job, Pod
from runs.engines.kubernetes.manifests import ATTEMPT, MARK, name_of, release_of, secret_of, selector_of, service_of
from runs.engines.kubernetes.manifests import job_of as job_document_of
from runs.engines.kubernetes.reasons import Words, is_evicted_by_kueue, why_job_waits, why_kueue_waits, why_pod_waits
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import (
    JobState,
    MachineRequest,
    Origin,
    SystemAway,
    SystemJob,
    SystemRefused,
    origin_of,
)
from runs.models import Cluster

log = structlog.get_logger(__name__)


class KubernetesEngine(AllocatingEngine):
    label = "Kubernetes"
    settings_type = KubernetesSettings
    access = ("API server", ACCESS_ADVICE)

    def system(self, cluster: Cluster) -> "KubernetesSystem":
        settings = KubernetesSettings.of(cluster.settings)
        return KubernetesSystem(settings, origin_of(cluster), Api(settings, django_settings.HOME))


# Kubernetes as a system of machines: looks for our jobs, submits them, and deletes them.


class KubernetesSystem:
    def __init__(self, settings: KubernetesSettings, origin: Origin, api: Api) -> None:
        self._settings, self._origin, self._api = settings, origin, api

    def steps(self, probe: Probe) -> Iterator[Finding]:
        return examine(self._settings, self._origin, self._api, probe)

    def jobs(self) -> list[SystemJob]:
        now = datetime.now(UTC)
        selector = selector_of(self._origin.mark)
        listed = attempt(lambda: self._api.jobs(selector), "list our jobs")
        pods = pod_jobs.pods_by_attempt(attempt(lambda: self._api.pods(selector).items or [], "list our pods"))
        found = [
            self._seen(job, pods.get(job.metadata.label(ATTEMPT), []), now)
            if pod_jobs.is_released(job)
            else pod_jobs.unreleased(job)
            for job in listed
        ]
        return [*found, *pod_jobs.orphans(listed, pods, now)]

    def find(self, job: str) -> SystemJob | None:
        found = attempt(lambda: self._api.job(job), f"look for job {job}")
        return pod_jobs.deleted(job) if found is None else None

    def submit(self, request: MachineRequest) -> str:
        name = name_of(request.attempt)
        try:
            uid = self._create(request, name).metadata.uid
            try:
                self._api.create("secrets", secret_of(self._settings, request, self._origin, uid))
                self._api.create("services", service_of(self._settings, request, self._origin, uid))
                self._api.patch_job(name, release_of(self._settings))
            except KubernetesRefusal as error:
                if not error.is_passing:
                    self.cancel(name)
                raise
        except KubernetesRefusal as error:
            words = str(error).rstrip(".")
            if error.is_passing:
                raise SystemAway(f"Kubernetes took no job on cluster {self._origin.cluster}: {words}.") from error
            advice = f"`trainyard doctor --cluster {self._origin.cluster}` looks for the reason. Then restart the run."
            raise SystemRefused(f"Kubernetes refused the job: {words}. {advice}") from error
        return name

    def cancel(self, job: str) -> None:
        attempt(lambda: self._api.delete_job(job), f"delete job {job}")

    def _create(self, request: MachineRequest, name: str) -> Job:
        """Make the job, or go on with the one that an earlier submission has made. Raises Refusal."""
        try:
            return self._api.create_job(job_document_of(self._settings, request, self._origin))
        except KubernetesRefusal as error:
            if error.status != 409:
                raise
            job = self._api.job(name)
            if job is None or job.metadata.deletion_timestamp is not None:
                raise
            if job.metadata.label(MARK) != self._origin.mark:
                raise SystemRefused(f"Namespace {self._settings.namespace} has another job {name} already.") from error
            return job

    def _seen(self, job: Job, pods: Sequence[Pod], now: datetime) -> SystemJob:
        if (patch := pod_jobs.end_to_record(job, pods)) is not None:
            job = attempt(lambda: self._api.patch_job(job.metadata.name, patch), "record why machines are taken")
        found = pod_jobs.job_of(job, pods, now)
        if found.state != JobState.PENDING:
            return found
        try:
            return self._waiting(found, job, pods, now)
        except KubernetesRefusal as error:  # the words alone need these rights
            return replace(found, reason=error.reason, sentence=f"why is not to be read: {str(error).rstrip('.')}.")

    def _waiting(self, found: SystemJob, job: Job, pods: Sequence[Pod], now: datetime) -> SystemJob:
        """Return the pending job with its reason."""
        if job.spec.suspend:
            return self._suspended(found, job)
        waiting = [pod for pod in pod_jobs.living(pods, now) if pod.status.phase != "Running"]
        if not waiting:
            words = why_job_waits(job, self._api.events(job.metadata.uid).items or [])
            return replace(found, reason=words.reason, sentence=words.sentence)
        words = why_pod_waits(waiting[0])
        if words.reason == "ContainerCreating":
            words = why_pod_waits(waiting[0], self._api.events(waiting[0].metadata.uid).items or [])
        number = job.spec.completions or 1
        there = f"{number - len(waiting)} of {number} pods run; " if number > len(waiting) else ""
        return replace(found, reason=words.reason, sentence=f"{there}pod {waiting[0].metadata.name}: {words.sentence}")

    def _suspended(self, found: SystemJob, job: Job) -> SystemJob:
        words = Words("Suspended", "somebody has suspended it (Suspended).")
        if self._settings.queue:
            workloads = self._api.workloads(job.metadata.uid).items or []
            taken = is_evicted_by_kueue(workloads)
            if taken is not None:
                self.cancel(found.id)  # Kueue would start it again, and nobody would be waiting for it
                sentence = f"Kueue took the machines of job {found.id}: {taken.message.rstrip('.')} ({taken.reason})."
                return replace(found, state=JobState.OVER, end=EndKind.PREEMPTED, end_sentence=sentence)
            words = why_kueue_waits(workloads, self._settings.queue)
        return replace(found, reason=words.reason, sentence=words.sentence)

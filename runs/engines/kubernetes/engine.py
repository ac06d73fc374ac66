"""The engine ``kubernetes``, and step by step, whether a cluster can run what is launched on it."""

import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from django.conf import settings as django_settings

from runs.causes.allocations import EndKind
from runs.engines.allocating import AllocatingEngine
from runs.engines.findings import Finding, Probe, probe_answers, probe_names
from runs.engines.kubernetes import manifests, reasons
from runs.engines.kubernetes.api import Api, KubernetesRefusal
from runs.engines.kubernetes.documents import Job, Pod
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import (
    JobEnd,
    JobState,
    MachineRequest,
    Origin,
    SystemJob,
    Words,
    origin_of,
    unsubmitted,
)
from runs.engines.refusals import StepFailed, SystemAway, SystemRefused, as_sentence, asked, needed, not_taken
from runs.models import Cluster
from trainyard.contract.base import JsonObject
from trainyard.formats.words import counted

PROBE_LIMIT_S = 120.0
ACCESS_ADVICE = "Is the kubeconfig right, and does its sign-in still work?"
EVERY_S = 1.0
RBAC_ADVICE = "Apply docs/kubernetes/rbac.yaml in the namespace, for the account that the server uses."


def _rights(api: Api, settings: KubernetesSettings) -> Finding:
    wanted = RIGHTS + (FOR_KUEUE if settings.queue else ())
    try:
        missing = [right for right in wanted if not api.may(right.verb, right.group, right.resource).status.allowed]
    except (SystemAway, KubernetesRefusal) as error:
        return Finding("rights", None, f"Which rights we have is not to be found out: {error}")
    if any(right.is_needed for right in missing):
        words = f"In namespace {settings.namespace} we may not: {_listed(missing)}."
        raise StepFailed(Finding("rights", False, words, RBAC_ADVICE))
    if missing:
        words = f"We may not {_listed(missing)} in namespace {settings.namespace}: reasons have fewer words."
        return Finding("rights", None, words)
    return Finding("rights", True, f"We may do all that is needed in namespace {settings.namespace}.")


def _listed(rights: "Sequence[Right]") -> str:
    return ", ".join(right.words for right in rights)


def _trial(api: Api, settings: KubernetesSettings, origin: Origin) -> Finding:
    """Have the API server check a whole job, the pod template in it, without making it."""
    request = MachineRequest(_word(), "doctor", settings.machines, settings.slots, [])
    try:
        api.create_job(manifests.job_of(settings, request, origin), is_trial=True)
    except (SystemAway, KubernetesRefusal) as error:
        advice = "Change what it names where the cluster is edited; the pod template is in .spec.template.spec."
        words = f"The API server does not take a job as ours are: {error}"
        raise StepFailed(Finding("manifest", False, words, advice)) from error
    return Finding("manifest", True, "The API server takes a job as ours are, with the pod template.")


def _probe(api: Api, settings: KubernetesSettings, origin: Origin, probe: Probe) -> Iterator[Finding]:
    """Run a job that lasts a second, and let each of its pods try what a node does."""
    number = min(2, settings.machines)
    request = MachineRequest(_word(), "doctor", number, settings.slots, [])
    machines = counted(number, "pod")
    try:
        api.create_job(_probe_job(settings, request, origin, probe))
        try:
            pods, problem = _wait(api, request.attempt)
            texts = {pod.metadata.name: api.log_tail(pod.metadata.name, 20) for pod in pods if not problem}
        finally:
            api.delete_job(manifests.name_of(request.attempt))
    except (SystemAway, KubernetesRefusal) as error:
        yield Finding("pods", False, f"A short job of {machines} did not run: {error}")
        return
    if problem:
        yield Finding("pods", False, f"A short job of {machines} did not run: {problem}", "It was deleted again.")
        return
    answers = [answer for text in texts.values() for answer in probe_answers(text)]
    if len(answers) < number:
        words = f"A short job ran in {machines}, and what they printed is not to be read."
        yield Finding("pods", None, words, "Has the image Trainyard, and may we get pods/log?")
        return
    yield Finding("pods", True, f"A short job ran in {machines}: {probe_names(answers)}.")
    yield from probe.findings(answers, settings.folder)


def _probe_job(settings: KubernetesSettings, request: MachineRequest, origin: Origin, probe: Probe) -> JsonObject:
    """Return the job as ours are, with another command, without tokens, and for a short time."""
    job = manifests.job_of(settings, request, Origin(f"doctor-{origin.mark}", origin.cluster, origin.server))
    job["spec"] |= {"suspend": False, "activeDeadlineSeconds": int(PROBE_LIMIT_S), "ttlSecondsAfterFinished": 60}
    if settings.queue:
        job["metadata"]["labels"][manifests.QUEUE] = settings.queue
        job["spec"]["suspend"] = True
    pod = job["spec"]["template"]["spec"]
    pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] != "trainyard-join"]
    container = pod["containers"][0]
    container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != "trainyard-join"]
    container["command"] = probe.words(settings.python, settings.folder)
    container["args"] = []
    return job


def _wait(api: Api, attempt: str) -> tuple[list[Pod], str]:
    """Return the pods of the job once they have ended, or what keeps them from it."""
    deadline = time.monotonic() + PROBE_LIMIT_S
    while True:
        pods = api.pods(f"{manifests.ATTEMPT}={attempt}")
        job = api.job(manifests.name_of(attempt))
        if job is None:
            return pods, "it was deleted by somebody."
        seen = reasons.job_of(job, pods, datetime.now(UTC))
        if seen.state == JobState.OVER:
            return pods, "" if seen.end is None else seen.end_sentence
        if time.monotonic() > deadline:
            waiting = [pod for pod in pods if pod.status.phase == "Pending"]
            end = reasons.end_of_pods(pods)
            words = reasons.why_pod_waits(waiting[0]).sentence if waiting else "its pods did not end."
            return pods, end.sentence if end is not None else words
        time.sleep(EVERY_S)


def _word() -> str:
    return f"doctor{secrets.token_hex(4)}"


# Rights that the server needs in the namespace of a cluster. docs/kubernetes/rbac.yaml gives just these.


class Right(NamedTuple):
    group: str  # empty for the core group
    resource: str
    verb: str
    is_needed: bool = True  # else words of reasons are missing without it

    @property
    def words(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


RIGHTS = (
    *(Right("batch", "jobs", verb) for verb in ("get", "list", "create", "patch", "delete")),
    Right("", "pods", "list"),
    Right("", "services", "create"),
    Right("", "secrets", "create"),
    Right("", "events", "list", is_needed=False),
    Right("", "pods/log", "get", is_needed=False),
)
FOR_KUEUE = (Right("kueue.x-k8s.io", "workloads", "list", is_needed=False),)


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
        settings, origin, api = self._settings, self._origin, self._api
        with needed("API server", ACCESS_ADVICE):
            version = api.version()
        yield Finding("API server", True, f"Kubernetes {version} answers.")
        yield _rights(api, settings)
        yield _trial(api, settings, origin)
        yield from _probe(api, settings, origin, probe)

    def jobs(self) -> list[SystemJob]:
        now = datetime.now(UTC)
        selector = f"{manifests.MARK}={self._origin.mark}"
        listed = asked(lambda: self._api.jobs(selector), "Kubernetes did not list our jobs")
        pods = reasons.pods_by_attempt(asked(lambda: self._api.pods(selector), "Kubernetes did not list our pods"))
        found = [
            self._seen(job, pods.get(job.metadata.label(manifests.ATTEMPT), []), now)
            if manifests.RELEASED in (job.metadata.annotations or {})
            else unsubmitted(job.metadata.name, job.metadata.label(manifests.ATTEMPT))
            for job in listed
        ]
        return [*found, *reasons.orphans(listed, pods, now)]

    def find(self, job: str) -> SystemJob | None:
        found = asked(lambda: self._api.job(job), f"Kubernetes did not look for job {job}")
        return reasons.deleted(job) if found is None else None

    def submit(self, request: MachineRequest) -> str:
        name = manifests.name_of(request.attempt)
        try:
            uid = self._create(request, name).metadata.uid
            try:
                self._api.create("secrets", manifests.secret_of(self._settings, request, self._origin, uid))
                self._api.create("services", manifests.service_of(self._settings, request, self._origin, uid))
                self._api.patch_job(name, manifests.release_of(self._settings))
            except KubernetesRefusal as error:
                if not error.is_passing:
                    self.cancel(name)
                raise
        except KubernetesRefusal as error:
            raise not_taken("Kubernetes", self._origin.cluster, error, is_passing=error.is_passing) from error
        return name

    def cancel(self, job: str) -> None:
        asked(lambda: self._api.delete_job(job), f"Kubernetes did not delete job {job}")

    def _create(self, request: MachineRequest, name: str) -> Job:
        """Make the job, or go on with the one that an earlier submission has made. Raises Refusal."""
        try:
            return self._api.create_job(manifests.job_of(self._settings, request, self._origin))
        except KubernetesRefusal as error:
            if error.status != 409:
                raise
            job = self._api.job(name)
            if job is None or job.metadata.deletion_timestamp is not None:
                raise
            if job.metadata.label(manifests.MARK) != self._origin.mark:
                raise SystemRefused(f"Namespace {self._settings.namespace} has another job {name} already.") from error
            return job

    def _seen(self, job: Job, pods: Sequence[Pod], now: datetime) -> SystemJob:
        if (patch := reasons.end_to_record(job, pods)) is not None:
            problem = "Kubernetes did not record why machines are taken"
            job = asked(lambda: self._api.patch_job(job.metadata.name, patch), problem)
        found = reasons.job_of(job, pods, now)
        if found.state != JobState.PENDING:
            return found
        try:
            return self._waiting(found, job, pods, now)
        except KubernetesRefusal as error:  # the words alone need these rights
            return found.waiting(Words(error.reason, f"why is not to be read: {as_sentence(error)}"))

    def _waiting(self, found: SystemJob, job: Job, pods: Sequence[Pod], now: datetime) -> SystemJob:
        if job.spec.suspend:
            return self._suspended(found, job)
        waiting = [pod for pod in reasons.living(pods, now) if pod.status.phase != "Running"]
        if not waiting:
            return found.waiting(reasons.why_job_waits(job, self._api.events(job.metadata.uid)))
        words = reasons.why_pod_waits(waiting[0])
        if words.reason == "ContainerCreating":
            words = reasons.why_pod_waits(waiting[0], self._api.events(waiting[0].metadata.uid))
        number = job.spec.completions or 1
        there = f"{number - len(waiting)} of {number} pods run; " if number > len(waiting) else ""
        return found.waiting(Words(words.reason, f"{there}pod {waiting[0].metadata.name}: {words.sentence}"))

    def _suspended(self, found: SystemJob, job: Job) -> SystemJob:
        words = Words("Suspended", "somebody has suspended it (Suspended).")
        if self._settings.queue:
            workloads = self._api.workloads(job.metadata.uid)
            taken = reasons.is_evicted_by_kueue(workloads)
            if taken is not None:
                self.cancel(found.id)  # Kueue would start it again, and nobody would be waiting for it
                sentence = f"Kueue took the machines of job {found.id}: {taken.message.rstrip('.')} ({taken.reason})."
                return found.ended(JobEnd(EndKind.PREEMPTED, sentence))
            words = reasons.why_kueue_waits(workloads, self._settings.queue)
        return found.waiting(words)

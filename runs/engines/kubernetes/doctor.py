"""Step by step, whether a Kubernetes cluster can run what is launched on it. A step that needs an earlier one is left
out where that failed."""

import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from runs.engines.findings import Finding, Probe, probe_answers, probe_names
from runs.engines.kubernetes.api import Api, KubernetesRefusal
from runs.engines.kubernetes.documents import Pod
from runs.engines.kubernetes.jobs import job_of as seen_job_of
from runs.engines.kubernetes.manifests import ATTEMPT, job_of, name_of
from runs.engines.kubernetes.reasons import end_of_pods, why_pod_waits
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import JobState, MachineRequest, Origin, SystemAway
from trainyard.contract.base import JsonObject

PROBE_LIMIT_S = 120.0
ACCESS_ADVICE = "Is the kubeconfig right, and does its sign-in still work?"
EVERY_S = 1.0
RBAC_ADVICE = "Apply docs/kubernetes/rbac.yaml in the namespace, for the account that the server uses."


def examine(settings: KubernetesSettings, origin: Origin, api: Api, probe: Probe) -> Iterator[Finding]:
    """Yield what is found, one step after the other."""
    try:
        version = api.version()
    except (SystemAway, KubernetesRefusal) as error:
        yield Finding("API server", False, str(error), ACCESS_ADVICE)
        return
    yield Finding("API server", True, f"Kubernetes {version} answers.")
    rights = _rights(api, settings)
    yield rights
    if rights.is_fine is False:
        return
    trial = _trial(api, settings, origin)
    yield trial
    if trial.is_fine:
        yield from _probe(api, settings, origin, probe)


def _rights(api: Api, settings: KubernetesSettings) -> Finding:
    wanted = RIGHTS + (FOR_KUEUE if settings.queue else ())
    try:
        missing = [right for right in wanted if not api.may(right.verb, right.group, right.resource).status.allowed]
    except (SystemAway, KubernetesRefusal) as error:
        return Finding("rights", None, f"Which rights we have is not to be found out: {error}")
    if any(right.is_needed for right in missing):
        words = f"In namespace {settings.namespace} we may not: {_listed(missing)}."
        return Finding("rights", False, words, RBAC_ADVICE)
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
        api.create_job(job_of(settings, request, origin), is_trial=True)
    except (SystemAway, KubernetesRefusal) as error:
        advice = "Change what it names where the cluster is edited; the pod template is in .spec.template.spec."
        return Finding("manifest", False, f"The API server does not take a job as ours are: {error}", advice)
    return Finding("manifest", True, "The API server takes a job as ours are, with the pod template.")


def _probe(api: Api, settings: KubernetesSettings, origin: Origin, probe: Probe) -> Iterator[Finding]:
    """Run a job that lasts a second, and let each of its pods try what a node does."""
    number = min(2, settings.machines)
    request = MachineRequest(_word(), "doctor", number, settings.slots, [])
    machines = f"{number} pod{'' if number == 1 else 's'}"
    try:
        api.create_job(_probe_job(settings, request, origin, probe))
        try:
            pods, problem = _wait(api, request.attempt)
            texts = {pod.metadata.name: api.log_tail(pod.metadata.name, 20) for pod in pods if not problem}
        finally:
            api.delete_job(name_of(request.attempt))
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
    job = job_of(settings, request, Origin(f"doctor-{origin.mark}", origin.cluster, origin.server))
    job["spec"] |= {"suspend": False, "activeDeadlineSeconds": int(PROBE_LIMIT_S), "ttlSecondsAfterFinished": 60}
    if settings.queue:
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = settings.queue
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
        pods = api.pods(f"{ATTEMPT}={attempt}").items or []
        job = api.job(name_of(attempt))
        if job is None:
            return pods, "it was deleted by somebody."
        seen = seen_job_of(job, pods, datetime.now(UTC))
        if seen.state == JobState.OVER:
            return pods, "" if seen.end is None else seen.end_sentence
        if time.monotonic() > deadline:
            waiting = [pod for pod in pods if pod.status.phase == "Pending"]
            end = end_of_pods(pods)
            words = why_pod_waits(waiting[0]).sentence if waiting else "its pods did not end."
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

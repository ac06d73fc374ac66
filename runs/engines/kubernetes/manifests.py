"""The objects of one attempt: a Job, a headless Service and a Secret. Everything here is pure.

The Job is made first, suspended. The Service and the Secret name it as their owner, so that they go with it. Then the
Job is released: a submission that was cut off has started nothing.
"""

from runs.engines.kubernetes.pod_template import CONTAINER, INDEX, laid_over, mount_paths, read_template
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import MachineRequest, Origin, node_words
from trainyard.contract.base import JsonObject

NAME = "trainyard"
MARK = f"{NAME}/cluster"  # labels: of which cluster of which server the object is
ATTEMPT = f"{NAME}/attempt"
RELEASED = f"{NAME}/released"  # an annotation of a Job that was submitted to its end
ENDING = f"{NAME}/ending"  # an annotation: why machines were taken, since pods that were taken are soon forgotten
QUEUE = "kueue.x-k8s.io/queue-name"
WITHIN = "kueue.x-k8s.io/podset-required-topology"
ANNOTATED_INDEX = "batch.kubernetes.io/job-completion-index"
KEPT_S = 86_400  # of a finished Job that nobody deletes; control does once it knows the end
TOKEN_PATH = "/run/trainyard/join"
HOME = "/var/lib/trainyard"
SHARED_MEMORY = "/dev/shm"
READ_BY_ALL = 0o444


def name_of(attempt: str) -> str:
    return f"{NAME}-{attempt}"


def job_of(settings: KubernetesSettings, request: MachineRequest, origin: Origin) -> JsonObject:
    """Return the Job, suspended. Nothing in it is secret."""
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    spec: JsonObject = {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": request.num_machines,
        "parallelism": request.num_machines,
        "backoffLimit": 0,  # a new attempt is a new job
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [disrupted]}]},
        "ttlSecondsAfterFinished": KEPT_S,
        "template": {"metadata": _pod_metadata(settings, request, origin), "spec": pod_spec(settings, request, origin)},
    }
    if settings.time_limit_s is not None:  # behind it, pods have the notice to save
        spec["activeDeadlineSeconds"] = int(settings.time_limit_s) - settings.notice_s
    metadata = _metadata(settings, request, origin)
    about = {"run": request.name, "cluster-name": origin.cluster, "server": origin.server}
    metadata["annotations"] = {f"{NAME}/{name}": value for name, value in about.items()}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def service_of(settings: KubernetesSettings, request: MachineRequest, origin: Origin, uid: str) -> JsonObject:
    """Return the Service that gives the pods names: ``trainyard-ATTEMPT-0.trainyard-ATTEMPT``. ``uid``: of the Job."""
    selector = {ATTEMPT: request.attempt, MARK: origin.mark}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned(settings, request, origin, uid),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
    }


def secret_of(settings: KubernetesSettings, request: MachineRequest, origin: Origin, uid: str) -> JsonObject:
    """Return the Secret with the join tokens, by the index of the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": _owned(settings, request, origin, uid),
        "stringData": {str(index): token for index, token in enumerate(request.tokens)},
    }


def release_of(settings: KubernetesSettings) -> JsonObject:
    """Return the patch with which a complete Job starts, or with which Kueue gets it, which starts it in its turn."""
    metadata: JsonObject = {"annotations": {RELEASED: "true"}}
    if settings.queue:
        return {"metadata": {**metadata, "labels": {QUEUE: settings.queue}}}
    return {"metadata": metadata, "spec": {"suspend": False}}


def pod_spec(settings: KubernetesSettings, request: MachineRequest, origin: Origin) -> JsonObject:
    template = read_template(settings.pod)
    spec: JsonObject = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": settings.notice_s,
        "subdomain": name_of(request.attempt),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [_container(settings, request, origin)],
        "volumes": [
            {"name": "trainyard-join", "secret": {"secretName": name_of(request.attempt), "defaultMode": READ_BY_ALL}},
            {"name": "trainyard-home", "emptyDir": {}},
        ],
    }
    mounts = spec["containers"][0]["volumeMounts"]
    if SHARED_MEMORY not in mount_paths(template):  # a container gets 64 MiB of it by itself
        spec["volumes"].append({"name": "trainyard-memory", "emptyDir": {"medium": "Memory"}})
        mounts.append({"name": "trainyard-memory", "mountPath": SHARED_MEMORY})
    if settings.claim:
        spec["volumes"].append({"name": "trainyard-shared", "persistentVolumeClaim": {"claimName": settings.claim}})
        mounts.append({"name": "trainyard-shared", "mountPath": settings.folder})
    _place(spec, settings, request)
    return laid_over(spec, template)


def _container(settings: KubernetesSettings, request: MachineRequest, origin: Origin) -> JsonObject:
    words = node_words(settings.python, request, server=origin.server, home=HOME)
    words += ["--machine", f"$({INDEX})", "--join-file", TOKEN_PATH, "--grace", str(settings.notice_s)]
    return {
        "name": CONTAINER,
        "image": settings.image,
        "command": words,
        "env": [
            {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATED_INDEX}']"}}},
            {"name": "TRAINYARD_CHECKPOINTS", "value": f"{settings.folder}/checkpoints"},
            {"name": "TRAINYARD_CORES", "value": str(request.slots * settings.cpus_per_slot)},
        ],
        "resources": _resources(settings, request),
        "volumeMounts": [
            {
                "name": "trainyard-join",
                "mountPath": TOKEN_PATH,
                "subPathExpr": f"$({INDEX})",  # each pod sees its own token alone
                "readOnly": True,
            },
            {"name": "trainyard-home", "mountPath": HOME},
        ],
    }


def _resources(settings: KubernetesSettings, request: MachineRequest) -> JsonObject:
    requests = {"cpu": str(request.slots * settings.cpus_per_slot)}
    limits = {}
    if settings.memory:
        requests["memory"] = limits["memory"] = settings.memory
    if settings.gpu_resource:
        requests[settings.gpu_resource] = limits[settings.gpu_resource] = str(request.slots)
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _place(spec: JsonObject, settings: KubernetesSettings, request: MachineRequest) -> None:
    """Write how the pods of the attempt stand to each other."""
    selector = {"matchLabels": {ATTEMPT: request.attempt}}
    if settings.spread:
        apart = {"maxSkew": 1, "topologyKey": settings.spread, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**apart, "labelSelector": selector}]
    if settings.together and not settings.queue:  # Kueue places them by an annotation
        term = {"topologyKey": settings.together, "labelSelector": selector}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _metadata(settings: KubernetesSettings, request: MachineRequest, origin: Origin) -> JsonObject:
    return {"name": name_of(request.attempt), "namespace": settings.namespace, "labels": _labels(request, origin)}


def _pod_metadata(settings: KubernetesSettings, request: MachineRequest, origin: Origin) -> JsonObject:
    metadata: JsonObject = {"labels": _labels(request, origin)}
    if settings.together and settings.queue:
        metadata["annotations"] = {WITHIN: settings.together}
    return metadata


def _labels(request: MachineRequest, origin: Origin) -> JsonObject:
    known = "app.kubernetes.io"  # labels that tools of Kubernetes know
    return {f"{known}/name": NAME, f"{known}/managed-by": NAME, MARK: origin.mark, ATTEMPT: request.attempt}


def _owned(settings: KubernetesSettings, request: MachineRequest, origin: Origin, uid: str) -> JsonObject:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name_of(request.attempt), "uid": uid, "controller": False}
    owner["blockOwnerDeletion"] = False  # to set it takes the right to change the Job's finalizers on some clusters
    return {**_metadata(settings, request, origin), "ownerReferences": [owner]}

"""The objects of an attempt: they fit Kubernetes' published schemas, and hold no secret where it may be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from runs.engines.kubernetes.engine import FOR_KUEUE, RIGHTS, KubernetesEngine
from runs.engines.kubernetes.manifests import job_of, release_of, secret_of, service_of
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import MachineRequest, Origin
from trainyard.contract.base import JsonObject

VERSIONS = ("1.31", "1.34", "1.37")
ROOT = Path(__file__).parents[4]
ORIGIN = Origin("0123456789ab", "pods", "http://server:8000")
REQUEST = MachineRequest("abc123", "a run", 2, 4, ["join_one", "join_two"])
TEMPLATE = """
nodeSelector: {gpu: a100}
tolerations: [{key: nvidia.com/gpu, operator: Exists}]
imagePullSecrets: [{name: pull}]
priorityClassName: low
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
volumes: [{name: data, hostPath: {path: /data}}]
containers:
- name: node
  env: [{name: NCCL_DEBUG, value: INFO}]
  resources: {limits: {rdma/hca: 1}}
  volumeMounts: [{name: data, mountPath: /data}]
"""


def job(**changes: Any) -> JsonObject:
    document = KubernetesEngine().checked({"image": "trainyard:1", "claim": "shared", **changes})
    return job_of(KubernetesSettings.of(document), REQUEST, ORIGIN)


def pod(**changes: Any) -> JsonObject:
    spec: JsonObject = job(**changes)["spec"]["template"]["spec"]
    return spec


FULL = {"gpu_resource": "nvidia.com/gpu", "memory": "16Gi", "time_limit": "1h", "queue": "team", "pod": TEMPLATE,
        "spread": "kubernetes.io/hostname", "together": "topology.kubernetes.io/zone"}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("changes", [{}, FULL, {**FULL, "queue": ""}])
def test_the_objects_fit_the_published_schemas(version: str, changes: dict[str, Any]) -> None:
    settings = KubernetesSettings.of(KubernetesEngine().checked({"image": "trainyard:1", "claim": "shared", **changes}))
    objects = [job_of(settings, REQUEST, ORIGIN)]
    objects += [make(settings, REQUEST, ORIGIN, "uid") for make in (service_of, secret_of)]
    released = job_of(settings, REQUEST, ORIGIN)
    released["spec"] |= release_of(settings).get("spec", {})
    for document in [*objects, released]:
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_roles_of_the_documentation_fit_too_and_give_what_the_doctor_looks_for(version: str) -> None:
    documents = list(yaml.safe_load_all((ROOT / "docs/kubernetes/rbac.yaml").read_text()))
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)
    role = next(one for one in documents if one["kind"] == "Role")
    given = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given == {(one.group, one.resource, one.verb) for one in RIGHTS + FOR_KUEUE}


def test_tokens_stand_in_the_secret_alone_and_a_pod_sees_its_own() -> None:
    text = json.dumps(job())
    assert "join_one" not in text and "join_two" not in text
    made = secret_of(
        KubernetesSettings.of(KubernetesEngine().checked({"image": "a", "claim": "b"})), REQUEST, ORIGIN, "uid"
    )
    assert made["stringData"] == {"0": "join_one", "1": "join_two"}
    (mount,) = [one for one in pod()["containers"][0]["volumeMounts"] if one["name"] == "trainyard-join"]
    assert mount["subPathExpr"] == "$(POD_INDEX)" and mount["readOnly"]
    assert "join_one" not in repr(REQUEST)


def test_the_template_lies_over_our_pod() -> None:
    found = pod(pod=TEMPLATE, gpu_resource="nvidia.com/gpu", together="zone")
    container = found["containers"][0]
    assert found["nodeSelector"] == {"gpu": "a100"} and {"podAffinity", "nodeAffinity"} == set(found["affinity"])
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "4", "rdma/hca": 1}
    names = [one["name"] for one in container["env"]]
    assert names[-1] == "NCCL_DEBUG" and "POD_INDEX" in names
    assert [one["name"] for one in found["volumes"]][-1] == "data"
    assert found["restartPolicy"] == "Never" and not found["automountServiceAccountToken"]


def test_limits_leave_the_notice_to_the_ranks() -> None:
    made = job(time_limit="1h", notice="5m")
    assert made["spec"]["activeDeadlineSeconds"] == 3600 - 300
    assert made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 300
    assert made["spec"]["template"]["spec"]["containers"][0]["command"][-2:] == ["--grace", "300"]
    assert "activeDeadlineSeconds" not in job()["spec"]


def test_memory_that_processes_share_is_the_machines() -> None:
    assert any(one.get("emptyDir") == {"medium": "Memory"} for one in pod()["volumes"])
    own = "containers: [{volumeMounts: [{name: m, mountPath: /dev/shm}]}]\nvolumes: [{name: m, emptyDir: {}}]"
    assert not any(one.get("emptyDir") == {"medium": "Memory"} for one in pod(pod=own)["volumes"])


def test_kueue_gets_the_job_when_it_is_complete() -> None:
    settings = KubernetesSettings.of(
        KubernetesEngine().checked({"image": "a", "claim": "b", "queue": "team", "together": "zone"})
    )
    made = job_of(settings, REQUEST, ORIGIN)
    assert made["spec"]["suspend"] and "kueue.x-k8s.io/queue-name" not in made["metadata"]["labels"]
    assert release_of(settings)["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert "affinity" not in made["spec"]["template"]["spec"]
    assert made["spec"]["template"]["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-required-topology": "zone"}

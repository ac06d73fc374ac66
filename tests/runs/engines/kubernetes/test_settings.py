"""Settings and pod templates: what is kept, and what is refused with its path and value."""

from __future__ import annotations

from typing import Any

import pytest

from runs.engines.cluster_settings.settings import SettingsError
from runs.engines.kubernetes.engine import KubernetesEngine

WELL = {"image": "trainyard:1", "claim": "shared"}


def problems(**changes: Any) -> dict[str, str]:
    with pytest.raises(SettingsError) as refused:
        KubernetesEngine().checked({**WELL, **changes})
    return refused.value.problems


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image", "two words"),
        ("namespace", "Up"),
        ("namespace", "a/b"),
        ("kubeconfig", "config"),
        ("gpu_resource", "nvidia.com/gpu=1"),
        ("memory", "lots"),
        ("folder", "trainyard"),
        ("folder", "/"),
        ("folder", "/a/../b"),
        ("claim", "a b"),
        ("queue", "a/b"),
        ("spread", "a b"),
        ("together", "/zone"),
        ("time_limit", "10s"),
        ("notice", "1s"),
        ("notice", ""),
        ("python", "-c"),
        ("server", "ftp://host"),
        ("server", "http://$(HOST)"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(field: str, value: object) -> None:
    found = problems(**{field: value})
    assert set(found) == {field}, found
    assert not value or str(value)[:8].splitlines()[0] in found[field] or field in found[field]


def test_checkpoints_need_a_volume() -> None:
    assert "/trainyard" in problems(claim="")["claim"]
    pod = "containers:\n- volumeMounts:\n  - {name: disk, mountPath: /trainyard}\nvolumes: [{name: disk, nfs: {}}]"
    assert KubernetesEngine().checked({**WELL, "claim": "", "pod": pod})["pod"] == pod
    assert "another volume" in problems(pod=pod)["claim"]


def test_a_notice_is_at_most_half_of_the_limit() -> None:
    assert "half of the time limit 3m" in problems(time_limit="3m", notice="2m")["notice"]


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ("restartPolicy: Always", "restartPolicy: 'Always' cannot be set here: a new attempt is a new job"),
        ("terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: 5 cannot be set here: the setting notice"),
        ("nodeName: m1", "nodeName: 'm1' cannot be set here: there are affinity"),
        ("containers: [{command: [sh]}]", "containers[0].command: ['sh'] cannot be set here: the pod runs"),
        ("containers: [{image: mine}]", "containers[0].image: 'mine' cannot be set here: the setting image"),
        ("containers: [{name: other}]", "'other' is none of ours: there is one, named 'node'"),
        ("containers: [{}, {name: side}]", "'side' is none of ours"),
        ("containers: [{env: [{name: TRAINYARD_CORES, value: '1'}]}]", "containers[0].env[0].name: 'TRAINYARD_CORES'"),
        ("containers: [{volumeMounts: [{name: a, mountPath: /run/trainyard/x}]}]", "volumeMounts[0].mountPath"),
        ("containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]", "resources.limits.nvidia.com/gpu: 8"),
        (
            "containers: [{resources: {requests: {cpu: 2}}}]",
            "resources.requests.cpu: 2 cannot be set here: the setting",
        ),
        ("volumes: [{name: trainyard-join}]", "volumes[0].name: 'trainyard-join' is ours"),
        ("tolerations: yes\nvolumes: 3", "volumes: a list, not 3"),
        ("- a\n- b", "spec: fields and their values"),
        ("a: [b", "No YAML:"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("nodeSelector: {since: 2026-01-01}", "texts, numbers, lists and fields only"),
        ("!!python/object/apply:os.system [id]", "No YAML"),
        (f"nodeSelector: {{a: {'x' * 60_000}}}", "At most 50,000 characters"),
    ],
)
def test_a_template_that_sets_what_is_ours_is_refused_with_its_path(pod: str, words: str) -> None:
    assert words in problems(pod=pod)["pod"]

"""A stand-in for an API server whose pods never start, and the engine's view of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.engines.kubernetes.api import Api
from runs.engines.kubernetes.engine import KubernetesEngine, KubernetesSystem
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import MachineRequest, Origin
from tests.kube.api_server import NAMESPACE, Kubernetes

ORIGIN = Origin("0123456789ab", "pods", "http://server:8000")
REQUEST = MachineRequest("abc123", "a run", 2, 1, ["join_one", "join_two"])
MakeSettings = Callable[..., KubernetesSettings]


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    made = Kubernetes(tmp_path)
    made.faults.unschedulable = "0/1 nodes are available: 1 Insufficient cpu. preemption: none"
    yield made
    made.stop()


@pytest.fixture
def make_settings(kubernetes: Kubernetes) -> MakeSettings:
    def make(**changes: Any) -> KubernetesSettings:
        document = {"image": "a", "claim": "b", "namespace": NAMESPACE, "kubeconfig": str(kubernetes.kubeconfig)}
        return KubernetesSettings.of(KubernetesEngine().checked({**document, **changes}))

    return make


@pytest.fixture
def system(make_settings: MakeSettings, tmp_path: Path) -> KubernetesSystem:
    settings = make_settings()
    return KubernetesSystem(settings, ORIGIN, Api(settings, tmp_path / "own"))

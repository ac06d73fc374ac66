"""moto's server, and the engine's view of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.engines.machine_system import MachineRequest, Origin
from runs.engines.sagemaker.aws import Aws
from runs.engines.sagemaker.engine import SageMakerEngine, SageMakerSystem
from runs.engines.sagemaker.settings import SageMakerSettings

ORIGIN = Origin("0123456789ab", "cloud", "http://server:8000")
REQUEST = MachineRequest("abc123", "a run", 2, 1, ["join_one", "join_two"], project="p", owner="ann")
MakeSettings = Callable[..., SageMakerSettings]


@pytest.fixture
def make_system(account: Any) -> Callable[..., SageMakerSystem]:
    def make(**changes: Any) -> SageMakerSystem:
        from tests.aws.account import SECRET_KEY

        settings = SageMakerSettings.of(SageMakerEngine().checked(account.settings(**changes)))
        return SageMakerSystem(settings, ORIGIN, Aws(settings, SECRET_KEY))

    return make


@pytest.fixture
def system(make_system: Callable[..., SageMakerSystem]) -> SageMakerSystem:
    return make_system()

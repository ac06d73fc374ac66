"""moto's server, and the engine's view of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runs.engines.machine_system import MachineRequest, Origin
from runs.engines.sagemaker.aws import Aws
from runs.engines.sagemaker.engine import SageMakerEngine, SageMakerSystem
from runs.engines.sagemaker.settings import SageMakerSettings

ORIGIN = Origin("0123456789ab", "cloud", "http://server:8000")
REQUEST = MachineRequest("abc123", "a run", 2, 1, ["join_one", "join_two"], project="p", owner="ann")
MakeSettings = Callable[..., SageMakerSettings]


@pytest.fixture(scope="session")
def shared_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.aws.account import running_account  # boto3 takes a second of a processor, and few tests need it

    with running_account(tmp_path_factory.mktemp("aws")) as account:
        yield account


@pytest.fixture
def account(shared_account: Any) -> Iterator[Any]:
    """One whose jobs never start."""
    shared_account.reset()
    shared_account.faults(waits=["Pending", "Insufficient capacity for ml.m5.xlarge"])
    yield shared_account


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

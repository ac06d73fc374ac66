"""Settings of a SageMaker cluster: what is kept, what is refused with its value, and the request that they make."""

from __future__ import annotations

from typing import Any

import pytest

from runs.engines.cluster_settings.settings import SettingsError
from runs.engines.machine_system import MachineRequest, Origin
from runs.engines.sagemaker.engine import SageMakerEngine, training_job_of
from runs.engines.sagemaker.settings import SageMakerSettings

WELL: dict[str, Any] = {
    "region": "eu-central-1",
    "role": "arn:aws:iam::123456789012:role/training",
    "image": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/trainyard:1",
    "instance_type": "ml.p4d.24xlarge",
    "subnets": ["subnet-0123456789abcdef0"],
    "security_groups": ["sg-0123456789abcdef0"],
    "file_system": "fs-0123456789abcdef0",
    "output": "s3://bucket/trainyard",
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("region", "Frankfurt"),
        ("role", "training"),
        ("image", "two words"),
        ("instance_type", "p4d.24xlarge"),
        ("subnets", []),
        ("subnets", ["sg-0123456789abcdef0"]),
        ("security_groups", ["default"]),
        ("file_system", "/mnt"),
        ("file_system_type", "NFS"),
        ("output", "/tmp"),
        ("time_limit", "60s"),
        ("time_limit", "29d"),
        ("time_limit", ""),
        ("spot_wait", "soon"),
        ("tags", ["team"]),
        ("tags", ["aws:team=a"]),
        ("tags", ["team=a", "team=b"]),
        ("access_key_id", "short"),
        ("endpoint", "file:///etc"),
        ("python", "-c"),
    ],
)
def test_what_is_wrong_is_named(field: str, value: object) -> None:
    with pytest.raises(SettingsError) as refused:
        SageMakerEngine().checked({**WELL, field: value})
    assert set(refused.value.problems) == {field}


def test_a_job_has_its_machines_network_limits_and_tags_and_no_token() -> None:
    settings = SageMakerSettings.of(
        SageMakerEngine().checked({**WELL, "spot": True, "time_limit": "4h", "tags": ["team=vision"]})
    )
    request = MachineRequest("abc123", "a run, of mine", 3, 8, ["join_secret"] * 3, project="p", owner="ann")
    job = training_job_of(settings, request, Origin("0123456789ab", "cloud", "https://server"))
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 14_400, "MaxWaitTimeInSeconds": 18_000}
    assert job["EnableManagedSpotTraining"] and job["ResourceConfig"]["InstanceCount"] == 3
    assert job["AlgorithmSpecification"]["ContainerArguments"][:3] == ["node", "--for-attempt", "abc123"]
    assert {"Key": "team", "Value": "vision"} in job["Tags"]
    assert {"Key": "trainyard:run", "Value": "a run  of mine"} in job["Tags"]
    assert "join_" not in str(job)

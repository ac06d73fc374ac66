"""What a Ray cluster's settings must be, and what a machine of it asks Ray for."""

from __future__ import annotations

import pytest

from runs.engines.cluster_settings.settings import SettingsError
from runs.engines.ray.engine import RayEngine
from runs.engines.ray.settings import RaySettings

FINE = {"address": "head:6379", "folder": "/shared"}


def test_the_least_is_an_address_and_a_folder() -> None:
    kept = RayEngine().checked(FINE)
    assert kept["strategy"] == "STRICT_SPREAD" and kept["machines"] == 2 and kept["gpus"] is False
    assert RaySettings.of(kept).demand(2).bundle() == {"CPU": 2}


def test_a_bundle_has_all_that_a_machine_must_have() -> None:
    more = {"cpus_per_slot": 4, "gpus": True, "gpu_kind": "A100", "memory": "16G", "resources": ["fast=1", "disk=0.5"]}
    demand = RaySettings.of(RayEngine().checked({**FINE, **more})).demand(8)
    assert demand.bundle() == {
        "CPU": 32, "GPU": 8, "memory": 16 * 2**30, "fast": 1, "disk": 0.5, "accelerator_type:A100": 0.001,
    }  # fmt: skip


@pytest.mark.parametrize("address", ["ray://head:10001", "10.0.0.1:6379", "[::1]:6379", "h.example.org:1"])
def test_addresses_of_a_machine_and_of_rays_client_are_fine(address: str) -> None:
    assert RayEngine().checked({**FINE, "address": address})["address"] == address


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("address", ""),
        ("address", "head"),
        ("address", "http://head:8265"),
        ("address", "ray://user:word@head:10001"),
        ("address", "ray://head:10001/x"),
        ("address", "head:99999"),
        ("folder", "shared"),
        ("strategy", "NEAR"),
        ("memory", "much"),
        ("resources", ["CPU=4"]),
        ("resources", ["fast"]),
        ("resources", ["fast=-1"]),
        ("resources", ["fast=1.5"]),
        ("resources", ["fast=nan"]),
        ("gpu_kind", "A100"),
        ("python", "python3"),
        ("runtime_env", "pip: torch"),
        ("runtime_env", "[1]"),
    ],
)
def test_a_refused_setting_is_named_with_its_value(field: str, value: object) -> None:
    with pytest.raises(SettingsError) as refused:
        RayEngine().checked({**FINE, field: value})
    assert list(refused.value.problems) == [field]

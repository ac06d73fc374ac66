"""A node has the GPUs that CUDA_VISIBLE_DEVICES names, and its slots are places in that list."""

from __future__ import annotations

import subprocess
import sys

import pynvml
import pytest
import torch

from workers.machine import gpus, nvidia
from workers.machine.gpus import VISIBLE, devices_of, gpus_of, own_gpus


class Driver:
    """NVML on a machine with 8 GPUs, whose UUIDs end with their indexes."""

    NVMLError = pynvml.NVMLError

    def nvmlInit(self) -> None:  # NVML's names
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 8

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index not in range(8):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        if not uuid.startswith("GPU-"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self.nvmlDeviceGetHandleByIndex(int(uuid[-1]))

    def nvmlDeviceGetIndex(self, handle: int) -> int:
        return handle


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "pynvml", Driver())


def indexes(found: list[gpus.OwnGpu]) -> list[int]:
    return [one.number for one in found]


def test_without_the_variable_all_are_the_node_s(machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    assert indexes(own_gpus()) == [*range(8)]
    assert devices_of([0, 2]) == "0,2"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", []),
        ("3", [3]),
        ("2, 5", [2, 5]),
        ("1,-1,2", [1]),
        ("1,8,2", [1]),
        ("GPU-00-4, GPU-00-2", [4, 2]),
        ("GPU-00-9,1", []),
        ("NoDevFiles", []),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(
    machine: None, monkeypatch: pytest.MonkeyPatch, given: str, found: list[int]
) -> None:
    monkeypatch.setenv(VISIBLE, given)
    assert indexes(own_gpus()) == found


@pytest.mark.parametrize(("given", "devices"), [("4,6,7", "4,7"), ("GPU-4,GPU-6,GPU-7", "GPU-4,GPU-7")])
def test_a_slot_is_a_place_in_the_list(
    machine: None, monkeypatch: pytest.MonkeyPatch, given: str, devices: str
) -> None:
    monkeypatch.setenv(VISIBLE, given)
    assert devices_of([0, 2]) == devices
    assert indexes(gpus_of([0, 2])) == [4, 7]
    assert gpus_of([]) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU, and this machine has none")
@pytest.mark.parametrize("kind", ["index", "uuid"])
def test_a_node_counts_as_many_gpus_as_pytorch(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    (first, *_) = own_gpus()
    name = "0" if kind == "index" else str(first.described().uuid)
    monkeypatch.setenv(VISIBLE, name)
    code = "import torch; print(torch.cuda.device_count())"
    counted = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert len(own_gpus()) == int(counted) == 1
    assert own_gpus()[0].number == first.number

"""AMD's GPUs by the files of amdgpu, laid out as the kernel documents them: no such card was at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.contract.machines import Gpu, GpuFaults, GpuHealth
from workers.machine import amd, gpus, nvidia
from workers.machine.gpus import VISIBLE, fault_reader, own_gpus
from workers.machine.inventory import take_inventory

MI300X = {
    "vendor": "0x1002",
    "device": "0x74a1",
    "product_name": "AMD Instinct MI300X OAM",
    "unique_id": "93f5c9a3d1b6e0c7",
    "mem_info_vram_total": "206141652992",
    "mem_info_vram_used": "297484288",
    "gpu_busy_percent": "87",
    "hwmon/hwmon4/temp1_input": "43000",
    "hwmon/hwmon4/power1_average": "561000000",
    "ras/umc_err_count": "ue: 2\nce: 17",
}
PLAIN = {"vendor": "0x1002", "device": "0x744c", "mem_info_vram_total": "25753026560"}  # a card that says little
DISPLAY = {"vendor": "0x1a03"}


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two of AMD's cards, the first of which is the second on PCI, and a display of another maker."""
    monkeypatch.setattr(amd, "SYSTEM", tmp_path)
    monkeypatch.setattr(nvidia, "count", lambda: 0)
    monkeypatch.setattr(gpus, "torch_version", lambda: "2.13.0+rocm6.4")
    monkeypatch.delenv(VISIBLE, raising=False)
    cards = [("0000:c1:00.0", PLAIN), ("0000:0c:00.0", MI300X), ("0000:02:00.0", DISPLAY)]
    for card, (address, files) in enumerate(cards):
        device = tmp_path / "devices" / address
        for name, text in files.items():
            path = device / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        shown = tmp_path / "class/drm" / f"card{card}"
        shown.mkdir(parents=True)
        (shown / "device").symlink_to(device)
        connector = tmp_path / "class/drm" / f"card{card}-DP-1"
        connector.mkdir()
        (connector / "device").symlink_to(shown)
    return tmp_path


def test_what_a_card_is_and_how_it_is_now(system: Path) -> None:
    first, second = own_gpus()
    assert first.described() == Gpu(
        index=0, name="AMD Instinct MI300X OAM", uuid="GPU-93f5c9a3d1b6e0c7", memory_bytes=206141652992
    )
    assert first.health() == GpuHealth(
        index=0, utilization_percent=87, memory_bytes=206141652992, memory_used_bytes=297484288, temperature_c=43,
        power_w=561,
    )  # fmt: skip
    assert second.described() == Gpu(index=1, name="AMD GPU 0x744c", memory_bytes=25753026560)
    assert second.health() == GpuHealth(index=1, memory_bytes=25753026560)
    assert fault_reader()() == [GpuFaults(index=0, ecc_errors=2), GpuFaults(index=1)]


@pytest.mark.parametrize(
    ("given", "found"), [("1", [1]), ("GPU-93f5c9a3d1b6e0c7,1", [0, 1]), ("0,2,1", [0]), ("", []), ("GPU-0", [])]
)
def test_the_variable_names_some_of_them(
    system: Path, monkeypatch: pytest.MonkeyPatch, given: str, found: list[int]
) -> None:
    monkeypatch.setenv(VISIBLE, given)
    assert [gpu.number for gpu in own_gpus()] == found


def test_the_inventory_has_them_and_their_driver(system: Path) -> None:
    assert take_inventory(system).driver is None, "the driver came with the kernel"
    path = system / "module/amdgpu/version"
    path.parent.mkdir(parents=True)
    path.write_text("6.12.12\n")
    inventory = take_inventory(system)
    assert inventory.driver == "6.12.12" and [gpu.index for gpu in inventory.gpus or []] == [0, 1]


@pytest.mark.parametrize("torch", ["2.13.0+cpu", "2.13.0", None])
def test_a_laptop_whose_torch_cannot_use_its_gpu_is_a_cpu_node(
    system: Path, monkeypatch: pytest.MonkeyPatch, torch: str | None
) -> None:
    monkeypatch.setattr(gpus, "torch_version", lambda: torch)
    assert own_gpus() == [] and take_inventory(system).gpus == [] and fault_reader()() == []

"""What of a rank's plan its container needs: mounts, GPUs, variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from trainyard.contract.orders import Order
from trainyard.spec.sections.container import SECTION
from workers.containers.documents import ContainerPlan
from workers.machine import gpus
from workers.rank_process.cold_rank import HOOK, PROGRESS
from workers.sandbox.process import Sandbox

CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
CDI_KIND = "nvidia.com/gpu"


def filled(container: ContainerPlan, sandbox: Sandbox) -> ContainerPlan:
    """Return the plan with the folders and the user that the rank would have in a sandbox of ours."""
    return msgspec.structs.replace(
        container,
        user=sandbox.user if sandbox.mechanism.is_other_user else -1,
        own=sandbox.own,
        shown=tuple(dict.fromkeys((*sandbox.shown, str(HOOK), PROGRESS))),
    )


def devices_of(order: Order) -> list[str]:
    """Return the GPUs of the node's part of an attempt, as CDI names them. All ranks here see all of them."""
    if order.accelerator != "gpu":
        return []
    return [f"{CDI_KIND}={number}" for number in gpus.devices_of(order.slots).split(",") if number]


def devices_problem(order: Order, folders: tuple[Path, ...] = CDI_FOLDERS) -> str:
    """Return why containers get no GPUs here; empty where they do, or need none."""
    if order.accelerator != "gpu" or any(_names_gpus(path) for folder in folders for path in _files_in(folder)):
        return ""
    return (
        f"{SECTION}: this node has no CDI specification of its GPUs, by which Podman gives them to a container: make "
        "one there (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)."
    )


def visible_devices(order: Order, own: Mapping[str, object]) -> dict[str, str]:
    """Return CUDA_VISIBLE_DEVICES of a container: it counts the GPUs that it was given from 0."""
    if order.accelerator != "gpu" or "CUDA_VISIBLE_DEVICES" in own:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(len(devices_of(order))))}


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in (".yaml", ".yml", ".json"))


def _names_gpus(path: Path) -> bool:
    try:
        return CDI_KIND in path.read_text(errors="replace")
    except OSError:
        return False

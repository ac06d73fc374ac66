"""Parts of a rank's plan for its container: mounts, GPUs, variables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trainyard import shadow
from trainyard.contract.orders import Order
from trainyard.spec.sections.container import SECTION
from workers.containers.documents import ContainerPlan
from workers.machine import gpus
from workers.rank_process.cold_rank import HOOK, PROGRESS
from workers.sandbox.process import Sandbox

CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
CDI_KIND = "nvidia.com/gpu"


def filled(container: ContainerPlan, sandbox: Sandbox, own: Sequence[Path], shown: Sequence[Path]) -> ContainerPlan:
    """Return the plan with the folders that the rank writes and reads, also where the node has no sandbox, and with the
    user that it would have in one."""
    for folder in own:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    read = [str(one) for one in shown if one.exists()]
    return msgspec.structs.replace(
        container,
        user=sandbox.user if sandbox.mechanism.is_other_user else -1,
        own=tuple(map(str, own)),
        shown=tuple(dict.fromkeys((*read, str(HOOK), PROGRESS, str(shadow.HOOK)))),
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

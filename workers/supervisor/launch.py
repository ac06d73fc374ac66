"""What a rank gets: torchrun's variables and ours, built from nothing."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import psutil

from workers.attempts import AttemptFolder
from workers.contract import Document
from workers.data_hosts import HOSTS
from workers.data_roots import CLOSED, ROOTS
from workers.gpus import devices_of
from workers.inventory import CORES
from workers.isolation import Cell
from workers.rank import RankPlan
from workers.shelter import Shelter

# The node's, for its ranks too.
NODE_SETTINGS = (
    "TRAINYARD_SPOOL_LIMIT_BYTES",
    "TRAINYARD_SPOOL_FILE_BYTES",
    "TRAINYARD_CACHE_LIMIT_BYTES",
    ROOTS,
)


def plan_rank(
    local_rank: int,
    *,
    order: Document,
    go: Document,
    folder: AttemptFolder,
    cache: Path,
    checkpoints: Path,
    address: str,
    shelter: Shelter,
) -> RankPlan:
    """``checkpoints`` is the folder under which each run has its own."""
    own = environment_of(
        local_rank, order=order, go=go, folder=folder, cache=cache, checkpoints=checkpoints, address=address
    )
    if "recipe" in order["spec"]["task"]:  # where one may read from is the node's to say, whatever the spec sets
        rules = {name: os.environ.get(name, "") for name in (ROOTS, HOSTS)}
        own |= {**rules, CLOSED: os.pathsep.join(shelter.hidden)}
    return RankPlan(
        rank=order["first_rank"] + local_rank,
        folder=folder,
        spec=order["spec"],
        environment=own,
        cell=cell_of(order, go, folder, cache=cache, checkpoints=checkpoints, shelter=shelter),
        threads=int(number) if (number := own.get("TRAINYARD_THREADS", own["OMP_NUM_THREADS"])).isdecimal() else 1,
    )


def environment_of(
    local_rank: int,
    *,
    order: Document,
    go: Document,
    folder: AttemptFolder,
    cache: Path,
    checkpoints: Path,
    address: str,
) -> dict[str, str]:
    """Return the rank's whole environment. The user's own variables win, except over who the rank is."""
    interface, share = interface_of(address), os.environ.get(CORES)
    comfort = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(folder.home),
        "TMPDIR": str(folder.path / "tmp"),
        "PYTHONFAULTHANDLER": "1",  # who crashes says at which line
        # As torchrun does: two ranks with all cores each are slower than with one, and sums depend on the number.
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": devices_of(order["slots"]) if order["accelerator"] == "gpu" else "",
        **({"TRAINYARD_THREADS": str(max(1, int(share) // order["num_ranks"]))} if share else {}),
        **{name: value for name in NODE_SETTINGS if (value := os.environ.get(name))},
        **({"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface} if interface else {}),
        **{name: str(value) for name, value in (order["spec"]["task"].get("environment") or {}).items()},
    }
    identity = {
        "RANK": order["first_rank"] + local_rank,
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": order["world_size"],
        "LOCAL_WORLD_SIZE": order["num_ranks"],
        "GROUP_RANK": order["node_rank"],
        "NODE_RANK": order["node_rank"],
        "MASTER_ADDR": go["master_addr"],
        "MASTER_PORT": go["master_port"],
        "TORCHELASTIC_RUN_ID": order["run"],
        "TRAINYARD_RUN": order["run"],
        "TRAINYARD_ATTEMPT": order["attempt"],
        "TRAINYARD_FENCE": order["fence"],
        "TRAINYARD_NODE": order["node_name"],
        "TRAINYARD_JOINED": folder.joined_path(order["first_rank"] + local_rank),
        "TRAINYARD_STOPPED": folder.stopped_path,
        "TRAINYARD_TRACE": folder.trace_path,
        "TRAINYARD_SPOOL": folder.spool,
        "TRAINYARD_OUTPUT": folder.output,
        "TRAINYARD_CACHE": cache,
        "TRAINYARD_CHECKPOINTS": checkpoints / order["run"],
        "TRAINYARD_RESTORE": json.dumps(_candidates(go, checkpoints)),
    }
    return {**comfort, **{name: str(value) for name, value in identity.items()}}


def cell_of(
    order: Document, go: Document, folder: AttemptFolder, *, cache: Path, checkpoints: Path, shelter: Shelter
) -> Cell:
    """What the rank's process is shut in with: it writes its attempt's folders, its project's cache and its run's
    checkpoints, and reads those that it may go on from."""
    others = {Path(one["folder"]) for one in _candidates(go, checkpoints) if one["run"] != order["run"]}
    own = [*folder.rooms, cache, checkpoints / order["run"]]
    return shelter.cell(order["spec"].get("project", ""), own=own, shown=[folder.path, *sorted(others)])


def _candidates(go: Document, checkpoints: Path) -> list[Document]:
    """What the server named, with where it would lie here; one that is older names nothing."""
    return [
        {**one, "folder": str(checkpoints / one["run"] / f"step-{one['step']}.fence-{one['fence']}")}
        for one in go.get("checkpoints") or []
    ]


def interface_of(address: str) -> str | None:
    """Return the network interface that has ``address``, so that ranks talk over it and not over a guess."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            return str(name)
    return None


def reserve_port(address: str) -> socket.socket:
    """Return a socket bound to a free port of ``address``. It keeps the port from others until rank 0 listens there.

    Both it and torch's store set SO_REUSEADDR and it never listens, so that the store may bind while it is open.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    reserved = socket.socket(family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((address, 0))
    except OSError:  # an address that only others see, behind a translation: any interface will do
        reserved.bind(("", 0))
    return reserved

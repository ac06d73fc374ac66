"""The environment of a rank, built from nothing: torchrun's variables, ours, the task's, and little of the node's."""

import getpass
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainyard import shadow
from trainyard.contract.base import JsonObject, encode
from trainyard.contract.calls import GivenSecret
from trainyard.contract.orders import CheckpointReference, Go, Order
from trainyard.spec.sections.restarts import RestartRules
from workers.attempt.folder import AttemptFolder
from workers.data_access import ROOTS
from workers.machine.gpus import devices_of
from workers.machine.inventory import CORES
from workers.machine.passed_variables import passed_variables
from workers.replicas.folders import ReplicaPlan
from workers.sandbox.node import Isolation

# The node's, for its ranks too.
NODE_SETTINGS = ("TRAINYARD_SPOOL_LIMIT_BYTES", "TRAINYARD_SPOOL_FILE_BYTES", "TRAINYARD_CACHE_LIMIT_BYTES", ROOTS)
# Caches of libraries last for the project's next runs on this node; no other project meets them.
CACHES = {
    "XDG_CACHE_HOME": "user",
    "TORCH_HOME": "user/torch",
    "HF_HOME": "user/huggingface",
    "PIP_CACHE_DIR": "user/pip",
}
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


class CheckpointCandidate(CheckpointReference):
    """A checkpoint to go on from: TRAINYARD_RESTORE holds a list of them."""

    folder: str


class Launch(NamedTuple):
    """What all ranks of an attempt on this node are started with."""

    order: Order
    go: Go
    folder: AttemptFolder
    cache: Path
    checkpoints: Path  # the folder under which each run has its own
    temporary: Path  # their TMPDIR
    address: str
    isolation: Isolation
    replicas: ReplicaPlan | None = None
    secrets: Sequence[GivenSecret] = ()

    @property
    def candidates(self) -> list[CheckpointCandidate]:
        """The checkpoints that the server named, with where each would lie here."""
        return [
            CheckpointCandidate(
                one.run, one.step, one.fence, str(self.checkpoints / one.run / f"step-{one.step}.fence-{one.fence}")
            )
            for one in self.go.checkpoints
        ]


def environment_of(local_rank: int, launch: Launch, *, interface: str | None, python: str = "") -> dict[str, str]:
    """Return the rank's whole environment but for torchrun's variables. The user's own variables win, except over
    which rank it is. ``python`` is the interpreter of an environment that was built for it."""
    order, folder, cache = launch.order, launch.folder, launch.cache
    task = order.spec["task"]
    own = {name: str(value) for name, value in (task.get("environment") or {}).items()}
    common = {
        **passed_variables(os.environ),
        **_user(),
        "PATH": path_of(task, python),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(folder.home),
        "TMPDIR": str(launch.temporary),
        **{name: str(cache / place) for name, place in CACHES.items()},
        "PYTHONFAULTHANDLER": "1",  # who crashes says at which line
        "TORCH_FR_BUFFER_SIZE": "128",  # of torch's 2,000 collectives these tell where a rank waits, and are read fast
        # As torchrun does: two ranks with all cores each are slower than with one, and sums depend on the number.
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": devices_of(order.slots) if order.accelerator == "gpu" else "",
        **threads_of(own, os.environ.get(CORES), order.num_ranks),
        **{name: value for name in NODE_SETTINGS if (value := os.environ.get(name))},
        **{name: interface for name in INTERFACES if interface and name not in os.environ},
        **own,
    }
    if task.get("shadow"):
        common |= shadow.variables(common.get("PYTHONPATH"))
    rank = order.first_rank + local_rank
    ours = {
        "TRAINYARD_RUN": order.run,
        "TRAINYARD_ATTEMPT": order.attempt,
        "TRAINYARD_FENCE": order.fence,
        "TRAINYARD_RESTART": order.restart,
        "TRAINYARD_RANK": rank,
        "TRAINYARD_NODE": order.node_name,
        "TRAINYARD_JOINED": folder.joined_path(rank),
        "TRAINYARD_STOPPED": folder.stopped_path,
        "TRAINYARD_TRACE": folder.trace_path,
        "TRAINYARD_SPOOL": folder.spool,
        "TRAINYARD_OUTPUT": folder.output,
        "TRAINYARD_CACHE": cache,
        "TRAINYARD_CHECKPOINTS": launch.checkpoints / order.run,
        "TRAINYARD_RESTORE": encode(launch.candidates),
        "TRAINYARD_SKIP": encode(launch.go.skips),
    }
    if (array := order.spec.get("array") or {}).get("size"):
        ours |= {"TRAINYARD_ARRAY_INDEX": array["index"], "TRAINYARD_ARRAY_SIZE": array["size"]}
    return {**common, **{name: str(value) for name, value in ours.items()}}


def threads_of(own: Mapping[str, str], share: str | None, num_ranks: int) -> dict[str, str]:
    """Return how many threads torch gets: as many as the user's variables give to OpenMP, else the rank's share of the
    cores that the node was given. Nothing where the node was given none: then the rank counts those of the machine."""
    given = own.get("OMP_NUM_THREADS", "")
    if given.isdecimal():
        return {"TRAINYARD_THREADS": str(max(1, int(given)))}
    return {"TRAINYARD_THREADS": str(max(1, int(share) // num_ranks))} if share else {}


def torchrun_variables(local_rank: int, launch: Launch) -> dict[str, str]:
    """Return what torchrun gives its workers; the restarts are those of the whole run."""
    order, go, folder = launch.order, launch.go, launch.folder
    rank = order.first_rank + local_rank
    found = {
        "RANK": rank,
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": order.world_size,
        "LOCAL_WORLD_SIZE": order.num_ranks,
        "GROUP_RANK": order.node_rank,
        "GROUP_WORLD_SIZE": order.num_nodes,
        "NODE_RANK": order.node_rank,
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": order.world_size,
        "MASTER_ADDR": go.master_addr,
        "MASTER_PORT": go.master_port,
        "TORCHELASTIC_RUN_ID": order.run,
        "TORCHELASTIC_RESTART_COUNT": order.restart,
        # Never below the count: those who read both expect that.
        "TORCHELASTIC_MAX_RESTARTS": max(order.restart, RestartRules.of(order.spec).max),
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 keeps the store
        "TORCHELASTIC_ERROR_FILE": folder.logs / f"rank-{rank}.torchelastic.json",
    }
    return {name: str(value) for name, value in found.items()}


def launchers_of(order: Order) -> list[str]:
    """Return the launchers whose variables the ranks get. An order of an older server names none."""
    return list(order.spec["task"].get("launch", ["torchrun"]))


def is_distributed(order: Order) -> bool:
    """Return whether its ranks are to have torchrun's variables. Many scripts take RANK alone for the wish to train
    with DDP, so the only process of a script has them where the spec asks for them."""
    task = order.spec["task"]
    if not {"torchrun", "horovod"} & set(launchers_of(order)):
        return False
    if "script" not in task or order.world_size > 1 or task.get("distributed"):
        return True
    nodes = (order.spec.get("resources") or {}).get("nodes")
    return isinstance(nodes, dict) and nodes.get("max", 1) > 1  # it is elastic, and this is its smallest size


def path_of(task: JsonObject, interpreter: str = "") -> str:
    """Return the node's PATH behind the folder of the interpreter that runs the rank: its ``python``, ``torchrun`` and
    ``accelerate`` are those that a subprocess finds."""
    path = os.environ.get("PATH", os.defpath)
    own = str((task.get("environment") or {}).get("PATH") or path)
    python = interpreter or task.get("python") or sys.executable
    found = python if "/" in python else shutil.which(python, path=own)
    programs = str(Path(found).parent) if found else ""
    return path if not programs or path.split(os.pathsep)[0] == programs else f"{programs}{os.pathsep}{path}"


def _user() -> dict[str, str]:
    """Libraries ask for the user's name, and fail where the number has none."""
    if "USER" in os.environ or "LOGNAME" in os.environ:
        return {}
    try:
        return {"USER": getpass.getuser()}
    except (KeyError, OSError):
        return {"USER": "trainyard"}

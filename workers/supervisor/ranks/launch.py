"""Launch of a rank: its environment, its sandbox, its port."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

import trainyard
from trainyard.contract.base import encode
from trainyard.contract.orders import Go, MemoryOrder, Order
from trainyard.formats.addresses import HOSTS
from trainyard.formats.words import listed
from trainyard.spec.sections.container import CREDENTIALS
from workers.attempt.documents import StartRequest
from workers.attempt.folder import AttemptFolder
from workers.attempt.temporary import PLACES
from workers.containers.documents import ContainerPlan
from workers.containers.variables import container_variables
from workers.data_access import CLOSED, ROOTS
from workers.rank_process.cold_start import why_cold
from workers.rank_process.mpi import MpiWorld
from workers.rank_process.run import RankPlan
from workers.rank_process.spark import SparkCluster
from workers.replicas.folders import PLAN, MemoryFolder, PeerNode, ReplicaPlan
from workers.sandbox.process import TEMPORARY
from workers.supervisor.container import filled, visible_devices
from workers.supervisor.environment import EnvironmentBuild
from workers.supervisor.ranks import environment as variables
from workers.supervisor.ranks.environment import Launch, launchers_of

SOCKET_CHARACTERS = 107  # of a path of a Unix socket, at most
MULTIPROCESSING_CHARACTERS = 32  # of its sockets below TMPDIR
HOROVOD = Path(trainyard.__file__).parent / "integrations" / "horovod.py"
COLD_NOTE = "Trainyard: this rank starts in an interpreter of its own, which takes seconds"


class RankStart(NamedTuple):
    """A way for ranks to begin: in the interpreter ``python``, as a program of their own (``task.command``), or warm.
    ``note`` is a line in their log."""

    python: str = ""
    note: str = ""
    is_program: bool = False
    shown: tuple[Path, ...] = ()  # folders that ranks read besides
    containers: tuple[ContainerPlan, ...] = ()  # of the ranks here, in their order

    @property
    def is_cold(self) -> bool:
        return self.is_program or bool(self.python)


def start_of_ranks(order: Order, folder: AttemptFolder, environment: EnvironmentBuild | None = None) -> RankStart:
    task = order.spec["task"]
    if environment is not None:
        containers = [environment.container_of(number) for number in range(order.num_ranks)]
        return RankStart(
            environment.python,
            is_program=bool(task.get("command")),
            shown=tuple(environment.shown),
            containers=tuple(one for one in containers if one is not None),
        )
    if task.get("command"):
        return RankStart(is_program=True)
    if task.get("notebook"):
        return RankStart(task.get("python") or sys.executable)
    if "script" not in task or task.get("python"):
        return RankStart(task.get("python") or "")
    if why := why_cold(task, folder.code):
        return RankStart(sys.executable, f"{COLD_NOTE}: {why}.")
    return RankStart()


def plan_rank(local_rank: int, launch: Launch, start: RankStart) -> RankPlan:
    order, go, folder, isolation = launch.order, launch.go, launch.folder, launch.isolation
    python = "" if start.containers else start.python
    own = variables.environment_of(local_rank, launch, interface=interface_of(launch.address), python=python)
    if start.containers:
        task_own = order.spec["task"].get("environment") or {}
        own = container_variables(own, task_own) | visible_devices(order, task_own)
    torchrun = variables.torchrun_variables(local_rank, launch)
    own = own | torchrun if variables.is_distributed(order) else {key: own[key] for key in own if key not in torchrun}
    own |= contract_variables(launchers_of(order), _place_of(local_rank, order, go))
    if "horovod" in launchers_of(order):
        own["PYTHONPATH"] = os.pathsep.join(filter(None, [_with_horovod(folder), own.get("PYTHONPATH")]))
    if "recipe" in order.spec["task"]:  # the node decides where a recipe may read from, whatever the spec sets
        rules = {name: os.environ.get(name, "") for name in (ROOTS, HOSTS)}
        own |= {**rules, CLOSED: os.pathsep.join(isolation.hidden)}
        own |= {PLAN: encode(launch.replicas)} if launch.replicas is not None else {}
    written, read = folders_of(launch, start.shown)
    in_tmp = _named_in_tmp(order) if isolation.has_own_tmp else []
    project = order.spec.get("project", "")
    sandbox = isolation.sandbox(project, own=written, shown=[*read, *in_tmp], temporary=folder.temporary)
    container = (
        filled(start.containers[local_rank], sandbox, [*written, launch.temporary], read) if start.containers else None
    )
    return RankPlan(
        rank=order.first_rank + local_rank,
        path=str(folder.path),
        spec=order.spec,
        environment=own,
        python=start.python,
        note="\n".join(one for one in (start.note, _note_on(launch.temporary)) if one),
        variables={**torchrun, **own},
        secrets=[one for one in launch.secrets if one.variable != CREDENTIALS],  # the node's own
        sandbox=sandbox,
        container=container,
        mpi=None if start.containers else _world_of(order, go),
        spark=SparkCluster(go.master_addr, go.master_port, launch.address, secret)
        if (secret := order.spark_secret)
        else None,
        threads=int(number) if (number := own.get("TRAINYARD_THREADS", own["OMP_NUM_THREADS"])).isdecimal() else 1,
    )


def folders_of(launch: Launch, shown: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the folders that a rank writes (its attempt's, its project's cache, its run's checkpoints and states in
    memory), and what it reads besides, such as those that it may go on from."""
    run, folder, replicas = launch.order.run, launch.folder, launch.replicas
    others = {Path(one.folder) for one in launch.candidates if one.run != run}
    memory = [replicas.memory] if replicas is not None and replicas.folder else []
    own = [*folder.writable_folders, launch.cache, launch.checkpoints / run, *(one.own for one in memory)]
    return own, [folder.path, *shown, *sorted(others), *(one.peer for one in memory)]


def _note_on(temporary: Path) -> str:
    """Return what a log says of a TMPDIR below which sockets of multiprocessing do not fit."""
    longest = SOCKET_CHARACTERS - MULTIPROCESSING_CHARACTERS
    if len(str(temporary)) <= longest:
        return ""
    places = listed(list(PLACES))
    return (
        f"Trainyard: TMPDIR has {len(str(temporary))} characters, more than the {longest} that leave room for "
        f"multiprocessing's sockets, since this node may write into none of {places}: a DataLoader's workers may hang"
    )


def _world_of(order: Order, go: Go) -> MpiWorld | None:
    if "mpi" not in launchers_of(order) or order.world_size == 1 or not go.workers:
        return None
    return MpiWorld(go.workers[0], order.world_size, order.num_nodes)


def _with_horovod(folder: AttemptFolder) -> str:
    """Return a folder in which Python finds ``horovod.torch``: ours, where the interpreter has no Horovod itself."""
    place = folder.path / "horovod" / "horovod"
    place.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HOROVOD, place / "torch.py")  # no link: a container does not have us
    for one in (place.parent, place, place / "torch.py"):  # its ranks may be another user's
        one.chmod(0o755)
    return str(place.parent)


def _named_in_tmp(order: Order) -> list[Path]:
    """Return what of the machine's /tmp the run or the node names: its data, its interpreter, folders of data."""
    task = order.spec["task"]
    named = [(task.get("data") or {}).get("location") or "", task.get("python") or ""]
    named += [one for one in os.environ.get(ROOTS, "").split(os.pathsep) if one]
    paths = [Path(one) for one in named if one.startswith("/")]
    return [one for one in paths if any(one.is_relative_to(place) and str(one) != place for place in TEMPORARY)]


def interface_of(address: str) -> str | None:
    """Return the network interface that has ``address``, so that ranks talk over it and not over a guess."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            return str(name)
    return None


def _place_of(local_rank: int, order: Order, go: Go) -> "RankPlace":
    return RankPlace(
        rank=order.first_rank + local_rank,
        world_size=order.world_size,
        local_rank=local_rank,
        local_size=order.num_ranks,
        master=f"{go.master_addr}:{go.master_port}",
        workers=go.workers[1:] if "mpi" in launchers_of(order) else go.workers,
    )


def reserve_ports(address: str, order: Order) -> list[socket.socket]:
    """Return sockets with free ports: of MASTER_PORT, of MPI's process manager beside rank 0, and of each rank here
    where its launcher names one."""
    launch = launchers_of(order)
    number = (order.num_ranks if "tensorflow" in launch else 0) + ("mpi" in launch and order.node_rank == 0)
    return [reserve_port(address) for _ in range(1 + number)]


def reserve_port(address: str) -> socket.socket:
    """Return a socket bound to a free port of ``address``. It keeps the port from others until rank 0 listens there.

    Both it and torch's store set SO_REUSEADDR and it never listens, so that the store may bind while it is open.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((address, 0))
    except OSError:  # an address that only others see, behind a translation: any interface will do
        reserved.bind(("", 0))
    return reserved


# The variables by which frameworks other than torch find the ranks: what their own launchers would set.


class RankPlace(NamedTuple):
    """A rank's place among all. ``workers`` are the addresses of all ranks (host:port), in their order."""

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    master: str  # host:port
    workers: Sequence[str] = ()


def contract_variables(launch: Sequence[str], place: RankPlace) -> dict[str, str]:
    """Return what the launchers that ``task.launch`` names would set, but for torchrun's variables."""
    size, local_size = place.world_size, place.local_size
    contracts: dict[str, dict[str, object]] = {
        # As MultiWorkerMirroredStrategy reads it: every rank is a worker, and the first is the chief.
        "tensorflow": {
            "TF_CONFIG": json.dumps(
                {"cluster": {"worker": list(place.workers)}, "task": {"type": "worker", "index": place.rank}}
            )
        },
        "mpi": {
            "OMPI_COMM_WORLD_RANK": place.rank,
            "OMPI_COMM_WORLD_SIZE": size,
            "OMPI_COMM_WORLD_LOCAL_RANK": place.local_rank,
            "OMPI_COMM_WORLD_LOCAL_SIZE": local_size,
            "OMPI_COMM_WORLD_NODE_RANK": place.local_rank,  # among the ranks of the node, as Open MPI has it
            "PMI_RANK": place.rank,  # MPICH and Intel MPI share these
            "PMI_SIZE": size,
            "MPI_LOCALRANKID": place.local_rank,
            "MPI_LOCALNRANKS": local_size,
        },
        # jax.distributed.initialize reads the address by itself, and gets the others.
        "jax": {"JAX_COORDINATOR_ADDRESS": place.master, "JAX_NUM_PROCESSES": size, "JAX_PROCESS_ID": place.rank},
        # Beside horovod.torch, which goes by torchrun's variables.
        "horovod": {
            "HOROVOD_RANK": place.rank,
            "HOROVOD_SIZE": size,
            "HOROVOD_LOCAL_RANK": place.local_rank,
            "HOROVOD_LOCAL_SIZE": local_size,
        },
    }
    return {name: str(value) for one in launch for name, value in contracts.get(one, {}).items()}


# Plan of states in the node's memory, for the ranks of an attempt.


def replica_plan(request: StartRequest, order: Order, go: Go) -> ReplicaPlan | None:
    """Return the plan for the ranks; None where the spec keeps no states in memory."""
    checkpoint = order.spec.get("checkpoint") or {}
    if not checkpoint.get("every_steps") or not checkpoint.get("replicate_every_steps") or go.memory is None:
        return None
    if not request.memory:
        problem = f"{order.node_name}: {request.memory_problem or 'the node has no memory folder'}"
        return ReplicaPlan(node=order.node_name, problem=problem)
    folder = MemoryFolder(Path(request.memory), request.memory_limit_bytes)
    others = sum(used for run, used in folder.runs().items() if run != order.run)
    return ReplicaPlan(
        node=order.node_name,
        folder=str(folder.run(order.run).path),
        limit_bytes=max(0, folder.limit_bytes - others),
        restore_above=go.memory.restore_above,
        restore_until_step=go.memory.restore_until_step,
        attempt=order.attempt,
        key=order.replica_key,
        peer=peer_of(order, go.memory) if order.replica_key else None,
    )


def peer_of(order: Order, memory: MemoryOrder) -> PeerNode | None:
    """Return the next node of the attempt that receives states, the first behind the last; None where no other does."""
    others = [*memory.nodes[order.node_rank + 1 :], *memory.nodes[: order.node_rank]]
    peers = (PeerNode(one.node, one.address, one.port) for one in others if one.port is not None and one.address)
    return next(peers, None)

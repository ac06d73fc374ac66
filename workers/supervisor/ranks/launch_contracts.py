"""The variables by which frameworks other than torch find the ranks: what their own launchers would set.

Each function names a launcher's variables for one rank. No MPI runs here: programs that read the names of its
launcher find their rank by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple


class RankPlace(NamedTuple):
    """Where a rank stands. ``workers`` are the addresses of all ranks (host:port), in their order."""

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    master: str  # host:port
    workers: Sequence[str] = ()


def contract_variables(launch: Sequence[str], place: RankPlace) -> dict[str, str]:
    """Return what the launchers that ``task.launch`` names would set, but for torchrun's variables."""
    found: dict[str, str] = {}
    for name in launch:
        if name in CONTRACTS:
            found |= CONTRACTS[name](place)
    return found


def tensorflow_variables(place: RankPlace) -> dict[str, str]:
    """TF_CONFIG, as MultiWorkerMirroredStrategy reads it: every rank is a worker, and the first is the chief."""
    task = {"type": "worker", "index": place.rank}
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": list(place.workers)}, "task": task})}


def mpi_variables(place: RankPlace) -> dict[str, str]:
    """The names of Open MPI's launcher, and those that launchers of MPICH and Intel MPI share."""
    values = {
        "OMPI_COMM_WORLD_RANK": place.rank,
        "OMPI_COMM_WORLD_SIZE": place.world_size,
        "OMPI_COMM_WORLD_LOCAL_RANK": place.local_rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": place.local_size,
        "OMPI_COMM_WORLD_NODE_RANK": place.local_rank,  # among the ranks of the node, as Open MPI has it
        "PMI_RANK": place.rank,
        "PMI_SIZE": place.world_size,
        "MPI_LOCALRANKID": place.local_rank,
        "MPI_LOCALNRANKS": place.local_size,
    }
    return {name: str(value) for name, value in values.items()}


def jax_variables(place: RankPlace) -> dict[str, str]:
    """What ``jax.distributed.initialize`` is given: the address it reads by itself."""
    return {
        "JAX_COORDINATOR_ADDRESS": place.master,
        "JAX_NUM_PROCESSES": str(place.world_size),
        "JAX_PROCESS_ID": str(place.rank),
    }


CONTRACTS: dict[str, Callable[[RankPlace], dict[str, str]]] = {
    "tensorflow": tensorflow_variables,
    "mpi": mpi_variables,
    "jax": jax_variables,
}

"""The ranks of an attempt as one group: how they meet, the place of each, and what they agree on."""

import os
import secrets
import socket
import sys
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

FORM_TIMEOUT_S = 120.0
POLL_S = 0.005
# By their names since torch 2.13, and before.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class MasterNotReached(RuntimeError):
    """Rank 0 did not open its port in time: it is not running, or the network between the nodes is closed."""


def join(place: "RankPlace", device: torch.device) -> None:
    """Form the default process group: NCCL between GPUs, gloo between CPUs.

    Raises MasterNotReached when MASTER_ADDR:MASTER_PORT does not accept within FORM_TIMEOUT_S.
    """
    if place.world_size == 1:
        # Nobody to find, so no port to need.
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        return
    if place.rank > 0:
        wait_for_master(place.master_addr, place.master_port, FORM_TIMEOUT_S)
    if place.master_addr in ("127.0.0.1", "localhost", "::1"):
        # All ranks are on this machine: gloo need not resolve the host name, which laptops often cannot.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    dist.init_process_group(
        backend="nccl" if device.type == "cuda" else "gloo",
        init_method="env://",
        rank=place.rank,
        world_size=place.world_size,
        # NCCL then connects now, and a broken network shows here and not at the first step.
        device_id=device if device.type == "cuda" else None,
    )


def wait_for_master(address: str, port: int, timeout_s: float) -> None:
    """Return once the port accepts. A store whose clients come before its server sleeps up to 0.8 s between tries."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection((address, port), timeout=1.0).close()
            return
        except OSError as error:
            if time.monotonic() >= deadline:
                raise MasterNotReached(f"{address}:{port} did not accept within {timeout_s:g} s: {error}") from error
            time.sleep(POLL_S)


def refuse_difference(what: str, value: str) -> None:
    """Raise ValueError when ``value`` is not the same on every rank, naming the ranks that differ from rank 0."""
    values = gather_all(value)
    different = {rank: other for rank, other in enumerate(values) if other != values[0]}
    if different:
        raise ValueError(f"{what} differs between ranks: rank 0 has {values[0]}, others have {different}")


def all_reduce_sum(tensor: torch.Tensor) -> dist.Work | None:
    """Start summing ``tensor`` in place over all ranks; the caller waits for the work before it reads."""
    work: dist.Work | None = dist.all_reduce(tensor, async_op=True)
    return work


# Place of this rank: torchrun's environment variables with types, and the device and threads it computes with.


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One rank's place in the world, as torchrun names it. A process without these variables is a world of one."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    node_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 0


def read_place(environment: Mapping[str, str]) -> RankPlace:
    """Return the place that the environment names. Torchrun says GROUP_RANK where we say NODE_RANK."""
    return RankPlace(
        rank=int(environment.get("RANK", 0)),
        local_rank=int(environment.get("LOCAL_RANK", 0)),
        world_size=int(environment.get("WORLD_SIZE", 1)),
        local_world_size=int(environment.get("LOCAL_WORLD_SIZE", 1)),
        node_rank=int(environment.get("NODE_RANK", environment.get("GROUP_RANK", 0))),
        master_addr=environment.get("MASTER_ADDR", "127.0.0.1"),
        master_port=int(environment.get("MASTER_PORT", 0)),
    )


def choose_device(accelerator: str, place: RankPlace) -> torch.device:
    """Return the device of this rank for ``resources.accelerator`` (auto, cpu or gpu).

    Raises ValueError where a GPU was asked for and this process sees none for its local rank.
    """
    if accelerator == "cpu":
        return torch.device("cpu")
    num_gpus = torch.cuda.device_count()
    if num_gpus > place.local_rank:
        return torch.device("cuda", place.local_rank)
    if accelerator == "auto" and num_gpus == 0:
        return torch.device("cpu")
    raise ValueError(
        f"resources.accelerator is {accelerator!r}, local rank {place.local_rank} of {place.local_world_size} needs "
        f"a GPU of its own, and this process sees {num_gpus}"
    )


def take_place(accelerator: str, place: RankPlace) -> torch.device:
    """Join the others with the threads and the device of this rank, which is returned. Raises as ``choose_device`` and
    ``join`` do."""
    torch.set_num_threads(num_threads(os.environ, place))
    device = choose_device(accelerator, place)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    join(place, device)
    return device


def num_threads(environment: Mapping[str, str], place: RankPlace) -> int:
    """Return how many threads an operator may use: TRAINYARD_THREADS, or this rank's share of the node's cores."""
    if given := environment.get("TRAINYARD_THREADS"):
        return max(1, int(given))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // place.local_world_size)


# Messages of ranks at the start of an attempt, so that all of them decide alike.

Value = TypeVar("Value")

PROBE_TIMEOUT_S = 5.0  # network file systems show a new name late
AGREE_POLL_S = 0.05


def gather_all(value: Value) -> list[Value]:
    """Return the value of every rank, by rank. A collective of the default group."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def why_not_shared(folder: Path, fence: int, writers: Container[int]) -> str | None:
    """Return a sentence that says why ``writers`` cannot keep checkpoints in ``folder`` together, None where they can.

    Rank 0 leaves a word there, the others look for it, and each leaves one of its own. A collective of all ranks.
    """
    rank = dist.get_rank()
    word, trouble = secrets.token_hex(8), None
    if rank == 0:
        trouble = _leave(folder, _probe(folder, fence, 0), word)
    word, trouble = gather_all((word, trouble))[0]
    if trouble is None and rank > 0 and rank in writers:
        trouble = _look(_probe(folder, fence, 0), word) or _leave(folder, _probe(folder, fence, rank), word)
    troubles = gather_all(trouble)
    # All have looked.
    with suppress(OSError):
        _probe(folder, fence, rank).unlink(missing_ok=True)
    return next((trouble for trouble in troubles if trouble is not None), None)


def _probe(folder: Path, fence: int, rank: int) -> Path:
    return folder / f".probe.fence-{fence}.rank-{rank}"


def _leave(folder: Path, probe: Path, word: str) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text(word)
    except OSError as error:
        words = "make it writable there, or set TRAINYARD_CHECKPOINTS of that node's worker to a folder that is"
        return f"{socket.gethostname()} cannot write to {folder}: {error.strerror or error}; {words}"
    return None


def _look(probe: Path, word: str) -> str | None:
    deadline = time.monotonic() + PROBE_TIMEOUT_S
    while True:
        with suppress(OSError):
            if probe.read_text() == word:
                return None
        if time.monotonic() > deadline:
            return (
                f"{socket.gethostname()} does not see in {probe.parent} what rank 0 has written there: the nodes of a "
                "run must share the folder, so set TRAINYARD_CHECKPOINTS of every node's worker to one that all mount"
            )
        time.sleep(AGREE_POLL_S)

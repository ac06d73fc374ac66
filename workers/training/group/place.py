"""Place of this rank: torchrun's environment variables with types, and the device and threads it computes with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch


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


def num_threads(environment: Mapping[str, str], place: RankPlace) -> int:
    """Return how many threads an operator may use: TRAINYARD_THREADS, or this rank's share of the node's cores."""
    given = environment.get("TRAINYARD_THREADS")
    if given:
        return max(1, int(given))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // place.local_world_size)

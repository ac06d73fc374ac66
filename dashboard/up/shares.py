"""What each of several nodes on this one machine gets of its cores and GPUs."""

from __future__ import annotations

import os


def shares(num_nodes: int, num_cores: int, gpus: list[str]) -> list[dict[str, str]]:
    """Return the environment with each node's share.

    GPUs are dealt evenly; where there are fewer than nodes all nodes are CPU nodes, since two of them must not train
    on one GPU, and a run over both must find two of a kind. One node alone has everything, without variables.
    """
    if num_nodes < 2:
        return [{}] * num_nodes
    each, cores = len(gpus) // num_nodes, max(1, num_cores // num_nodes)
    return [
        {"TRAINYARD_CORES": str(cores), "CUDA_VISIBLE_DEVICES": ",".join(gpus[number * each : (number + 1) * each])}
        for number in range(num_nodes)
    ]


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_gpus() -> list[str]:
    """Return the indexes of the GPUs that we may use ourselves."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip().isdecimal()]
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        return []
    try:
        return [str(index) for index in range(pynvml.nvmlDeviceGetCount())]
    finally:
        pynvml.nvmlShutdown()

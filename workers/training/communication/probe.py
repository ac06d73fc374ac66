"""``python -m workers.training.communication.probe``: one process of a short collective over nodes.

It gets torchrun's variables and prints what a small and a large all-reduce took, as JSON in its last line.
"""

import json
import time
from datetime import timedelta
from statistics import median

import torch
import torch.distributed as dist

SMALL_NUMBERS, LARGE_NUMBERS = 1, 1 << 20  # of 4 bytes each
REPEATS = 5
FORM_LIMIT_S = 20.0  # for all nodes to meet, and for each operation


def main() -> None:
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo", timeout=timedelta(seconds=FORM_LIMIT_S))
    device = torch.device("cuda", 0) if has_gpu else torch.device("cpu")
    torch.set_num_threads(1)
    small_s, large_s = (all_reduce_s(numbers, device) for numbers in (SMALL_NUMBERS, LARGE_NUMBERS))
    world = dist.get_world_size()
    bus_bytes = 4 * LARGE_NUMBERS * 2 * (world - 1) / world  # what each node sends in a ring
    print(json.dumps({"latency_s": small_s, "bytes_per_s": bus_bytes / large_s, "world_size": world}), flush=True)
    dist.destroy_process_group()


def all_reduce_s(numbers: int, device: torch.device) -> float:
    """Return the median time of an all-reduce. Raises RuntimeError where the sum is wrong."""
    took: list[float] = []
    for _ in range(REPEATS + 1):  # the first one makes the connections
        values = torch.ones(numbers, device=device)
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        if device.type == "cuda":
            torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
        if not bool((values == dist.get_world_size()).all()):
            raise RuntimeError("the sum over all nodes is wrong: a network card or a memory corrupts data")
    return median(took[1:])


if __name__ == "__main__":
    main()

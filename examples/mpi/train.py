"""Ranks that were started by mpirun, or as if they were, add up their numbers over gloo.

mpirun -n 2 -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT=29500 python train.py
"""

import os

import torch
import torch.distributed as dist

RANK, SIZE = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))


def main() -> None:
    dist.init_process_group("gloo", rank=RANK, world_size=SIZE)  # it meets at MASTER_ADDR and MASTER_PORT
    total = torch.tensor([float(RANK)])
    dist.all_reduce(total)
    print(f"rank {RANK} of {SIZE}, local {os.environ['OMPI_COMM_WORLD_LOCAL_RANK']}: {total.item():.0f}", flush=True)
    assert total.item() == SIZE * (SIZE - 1) / 2
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

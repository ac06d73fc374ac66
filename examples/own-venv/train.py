"""A line is fitted by every process that torchrun starts, in whatever environment this interpreter belongs to.

    torchrun --nproc-per-node 2 train.py --steps 60

Nothing in here knows of Trainyard.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    train(arguments.steps, device)
    dist.destroy_process_group()  # when the model is gone: its reducer holds the group, and may wait for it for ever


def train(steps: int, device: torch.device) -> None:
    rank = dist.get_rank()
    if rank == 0:
        print(f"Python {sys.version.split()[0]} of {sys.prefix}, torch {torch.__version__}", flush=True)

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)  # each process draws points of its own
    for _ in range(steps):
        x = torch.randn(32, 1, generator=generator).to(device)
        loss = nn.functional.mse_loss(model(x), 3 * x - 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        weight, bias = (parameter.item() for parameter in model.parameters())
        print(f"found y = {weight:.3f} x + {bias:.3f}, loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()

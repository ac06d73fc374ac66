"""Any DDP script that runs under torchrun runs here unchanged; this one fits a curve.

    torchrun --nproc-per-node 2 train.py --steps 200

The lines with ``trainyard`` are optional: they put the loss on the run's page, and work without a server too.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trainyard


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=1e-2)
    arguments = parser.parse_args()

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    run = trainyard.init()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    generator = torch.Generator().manual_seed(rank)  # each rank draws its own samples

    for step in range(1, arguments.steps + 1):
        x = torch.rand(256, 1, generator=generator).to(device) * 6 - 3
        loss = nn.functional.mse_loss(replica(x), torch.sin(3 * x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            run.log({"train/loss": loss.item()}, step=step)
            if step % 50 == 0:
                print(f"step {step}/{arguments.steps}  loss {loss.item():.4f}", flush=True)

    if rank == 0:
        torch.save(model.state_dict(), Path(os.environ.get("TRAINYARD_OUTPUT", ".")) / "model.pt")
    run.finish()
    del replica  # it holds the group, whose end would wait for it now and then for ever
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

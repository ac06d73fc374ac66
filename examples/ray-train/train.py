"""Ray Train fits a line on two of its own workers, in a Ray that this script starts for itself.

    python train.py

Nothing in here knows of Trainyard. Ray's sockets lie in a folder with a short path: the kernel takes 107 characters.
"""

import tempfile

import ray
import ray.train
import ray.train.torch
import torch
from torch import nn


def train() -> None:
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)  # each worker draws points of its own
    for _ in range(60):
        x = torch.randn(32, 1, generator=generator)
        loss = nn.functional.mse_loss(model(x), 3 * x - 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        weight, bias = (parameter.item() for parameter in model.parameters())
        number = ray.train.get_context().get_world_size()
        print(f"{number} workers found y = {weight:.3f} x + {bias:.3f}, loss {loss.item():.6f}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=3, include_dashboard=False, _temp_dir=folder)
        trainer = ray.train.torch.TorchTrainer(
            train,
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            run_config=ray.train.RunConfig(storage_path=f"{folder}/results"),
        )
        trainer.fit()
        ray.shutdown()


if __name__ == "__main__":
    main()

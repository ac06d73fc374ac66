"""A network learns to read digits with Hugging Face Accelerate.

    torchrun --nproc-per-node 2 train.py --epochs 12        or: accelerate launch train.py

Nothing in here knows of Trainyard. Accelerate finds the other processes by the variables that torchrun sets.
"""

import argparse
from typing import Any

import torch
from accelerate import Accelerator, DeepSpeedPlugin, FullyShardedDataParallelPlugin
from accelerate.utils import InitProcessGroupKwargs, set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--shard", choices=("fsdp", "deepspeed"), help="plug-in that spreads the state over GPUs")
    arguments = parser.parse_args()

    accelerator = Accelerator(**options(arguments.shard))
    train(accelerator, arguments)
    accelerator.free_memory()  # else the model still holds the process group when that ends, and may hang there
    accelerator.end_training()


def options(shard: str | None) -> dict[str, Any]:
    """Return what the Accelerator is made with. Without a GPU it must be told, to look for other processes."""
    is_gpu = torch.cuda.is_available()
    if shard == "deepspeed":
        # Else it clips gradients to a norm of 1, which nothing else here does.
        plugin = DeepSpeedPlugin(zero_stage=2, gradient_clipping=1e9)
        handlers = [] if is_gpu else [InitProcessGroupKwargs(backend="gloo")]
        return {"deepspeed_plugin": plugin, "kwargs_handlers": handlers}
    return {"cpu": not is_gpu, "fsdp_plugin": FullyShardedDataParallelPlugin(fsdp_version=2) if shard else None}


def train(accelerator: Accelerator, arguments: argparse.Namespace) -> None:
    set_seed(0)
    training, test = digits()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    model, optimizer, training_loader, test_loader = accelerator.prepare(
        model,
        optimizer,
        DataLoader(training, batch_size=arguments.batch_size, shuffle=True),
        DataLoader(test, batch_size=256),
    )
    accelerator.print(f"{accelerator.num_processes} processes, {accelerator.distributed_type}", flush=True)

    for epoch in range(1, arguments.epochs + 1):
        for images, labels in training_loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        right = seen = 0
        for images, labels in test_loader:
            with torch.no_grad():
                guesses = model(images).argmax(1)
            guesses, labels = accelerator.gather_for_metrics((guesses, labels))
            right, seen = right + (guesses == labels).sum().item(), seen + len(labels)
        accelerator.print(
            f"epoch {epoch}/{arguments.epochs}  loss {loss.item():.4f}  test accuracy {right / seen:.3f}", flush=True
        )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return the pictures to learn from, and every fifth to test with."""
    found = load_digits()
    images, labels = torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(images[~is_test], labels[~is_test]), TensorDataset(images[is_test], labels[is_test])


if __name__ == "__main__":
    main()

"""A network learns to read digits on every process that torchrun starts (DistributedDataParallel).

    torchrun --nproc-per-node 2 train.py --epochs 12

Nothing in here knows of Trainyard. The digits are scikit-learn's: 1,797 pictures of 8 x 8 pixels that people wrote.
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    arguments = parser.parse_args()

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    train(arguments, device)
    dist.destroy_process_group()  # when the model is gone: its reducer holds the group, and may wait for it for ever


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    torch.manual_seed(0)
    training, test = digits()
    sampler = DistributedSampler(training, shuffle=True, drop_last=True)
    loader = DataLoader(training, batch_size=arguments.batch_size, sampler=sampler)
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)

    for epoch in range(1, arguments.epochs + 1):
        sampler.set_epoch(epoch)  # else every epoch has the same order
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right, seen = count_right(model, test, device)
        if dist.get_rank() == 0:
            print(
                f"epoch {epoch}/{arguments.epochs}  loss {loss.item():.4f}  test accuracy {right / seen:.3f}",
                flush=True,
            )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return the pictures to learn from, and every fifth to test with."""
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(found.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(images[~is_test], labels[~is_test]), TensorDataset(images[is_test], labels[is_test])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


@torch.no_grad()
def count_right(model: nn.Module, test: TensorDataset, device: torch.device) -> tuple[int, int]:
    """Return how many the processes got right together, each on its part, and how many there are."""
    images, labels = (part[dist.get_rank() :: dist.get_world_size()].to(device) for part in test.tensors)
    model.eval()
    counts = torch.tensor([(model(images).argmax(1) == labels).sum(), len(labels)], device=device)
    model.train()
    dist.all_reduce(counts)
    right, seen = counts.tolist()
    return right, seen


if __name__ == "__main__":
    main()

"""One small training, whatever launched its ranks: a network learns to read digits, ``train.py WAY --steps 60``.

``train`` is the training. Each way has its own system's group of processes, and hands ``train`` how that system takes a
step. All have the same digits, seed, network and optimizer in float32, and average their gradients over the ranks.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trainyard

BATCH = 64  # digits a step, of all ranks together
Batch = tuple[torch.Tensor, torch.Tensor]
Average = Callable[[torch.Tensor], torch.Tensor]  # over all ranks, of numbers that it changes


class Training:
    """One rank's part: its batches, and the curve that rank 0 draws."""

    def __init__(self, arguments: argparse.Namespace, rank: int, size: int, average: Average) -> None:
        self.steps, self.pause = arguments.steps, arguments.pause
        self._rank, self._size, self._average = rank, size, average
        self._run = trainyard.init() if rank == 0 else None
        torch.set_num_threads(1)  # with more of them sums may be taken in another order

    def batches(self) -> Iterator[Batch]:
        found = load_digits()
        images, labels = torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)
        generator = torch.Generator().manual_seed(1)
        for _ in range(self.steps):
            mine = torch.randint(len(labels), (BATCH,), generator=generator)[self._rank :: self._size]
            yield images[mine], labels[mine]
            time.sleep(self.pause)

    def record(self, step: int, loss: torch.Tensor) -> None:
        mean = self._average(loss.detach().clone()).item()
        if self._run is not None:
            self._run.log({"train/loss": mean}, step=step)

    def finish(self) -> None:
        if self._run is not None:
            self._run.finish()


def train(training: Training, learn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    """``learn`` takes a step of the optimizer with a batch, and returns the rank's loss before it."""
    for step, (images, labels) in enumerate(training.batches(), start=1):
        training.record(step, learn(images, labels))
    training.finish()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


def average_by_torch(value: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(value)
    return value / dist.get_world_size()


def with_torchrun(arguments: argparse.Namespace) -> None:
    """Variables say rank, size and address, as under torchrun. It is so on the machines of every engine."""
    dist.init_process_group("gloo")
    in_a_group(arguments)
    dist.destroy_process_group()


def in_a_group(arguments: argparse.Namespace) -> None:
    model = DistributedDataParallel(network())
    optimizer = optimizer_of(model)

    def learn(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    train(Training(arguments, dist.get_rank(), dist.get_world_size(), average_by_torch), learn)


def with_mpi(arguments: argparse.Namespace) -> None:
    """No torch.distributed: gradients and losses go by mpi4py over COMM_WORLD."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    model = network()
    optimizer = optimizer_of(model)

    def average(value: torch.Tensor) -> torch.Tensor:
        world.Allreduce(MPI.IN_PLACE, value.numpy())
        return value.div_(world.size)

    def learn(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            average(parameter.grad)
        optimizer.step()
        return loss

    train(Training(arguments, world.rank, world.size, average), learn)


def with_deepspeed(arguments: argparse.Namespace) -> None:
    import deepspeed

    deepspeed.init_distributed("gloo")
    model = network()
    settings = {
        "train_micro_batch_size_per_gpu": BATCH // dist.get_world_size(),
        "gradient_clipping": 0,
        "zero_optimization": {"stage": arguments.stage},
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer_of(model), config=settings)

    def learn(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(engine(images), labels)
        engine.backward(loss)
        engine.step()
        return loss

    train(Training(arguments, dist.get_rank(), dist.get_world_size(), average_by_torch), learn)
    dist.destroy_process_group()


def with_accelerate(arguments: argparse.Namespace) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    plain = network()
    model, optimizer = accelerator.prepare(plain, optimizer_of(plain))

    def learn(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        return loss

    train(Training(arguments, dist.get_rank(), dist.get_world_size(), average_by_torch), learn)
    accelerator.end_training()


def with_lightning(arguments: argparse.Namespace) -> None:
    """Lightning's Trainer has the loop: it takes the batches and the steps of ``train``."""
    import lightning
    from torch.utils.data import DataLoader, IterableDataset

    class Batches(IterableDataset[Batch]):
        def __iter__(self) -> Iterator[Batch]:
            return reader.training_of_rank().batches()

    class Reader(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()
            self._found: Training | None = None

        def training_of_rank(self) -> Training:
            if self._found is None:  # not before the Trainer has made the group
                self._found = Training(arguments, dist.get_rank(), dist.get_world_size(), average_by_torch)
            return self._found

        def training_step(self, batch: Batch, number: int) -> torch.Tensor:
            images, labels = batch
            self._loss: torch.Tensor = nn.functional.cross_entropy(self.net(images), labels)
            return self._loss

        def on_train_batch_end(self, outputs: object, batch: Batch, number: int) -> None:
            self.training_of_rank().record(number + 1, self._loss)

        def on_train_end(self) -> None:
            self.training_of_rank().finish()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer_of(self.net)

    reader = Reader()
    size, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        accelerator="cpu", strategy="ddp", devices=here, num_nodes=size // here, max_steps=arguments.steps,
        use_distributed_sampler=False, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(reader, DataLoader(Batches(), batch_size=None))


def with_ray(arguments: argparse.Namespace) -> None:
    """Ray Train's workers, in a Ray that this script starts for itself."""
    import tempfile

    import ray
    import ray.train.torch

    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=3, include_dashboard=False, _temp_dir=folder)
        trainer = ray.train.torch.TorchTrainer(
            lambda: in_a_group(arguments),
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            torch_config=ray.train.torch.TorchConfig(backend="gloo"),
            run_config=ray.train.RunConfig(storage_path=f"{folder}/results"),
        )
        trainer.fit()
        ray.shutdown()


def with_spark(arguments: argparse.Namespace) -> None:
    """Processes of Spark's TorchDistributor, which torchrun starts in them; this script is Spark's driver."""
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("one training").getOrCreate()
    TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(with_torchrun, arguments)
    spark.stop()


WAYS = {
    "torchrun": with_torchrun, "mpi": with_mpi, "deepspeed": with_deepspeed, "accelerate": with_accelerate,
    "lightning": with_lightning, "ray": with_ray, "spark": with_spark,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps")
    parser.add_argument("--stage", type=int, default=0, help="of DeepSpeed's ZeRO")
    arguments = parser.parse_args()
    WAYS[arguments.way](arguments)


if __name__ == "__main__":
    main()

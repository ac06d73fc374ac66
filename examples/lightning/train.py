"""A network learns to read digits with Lightning's Trainer.

    torchrun --nproc-per-node 2 train.py --epochs 12

Nothing in here knows of Trainyard. Lightning sees by torchrun's variables that its processes are there already.
"""

import argparse
import os

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROCESSES = int(os.environ.get("LOCAL_WORLD_SIZE", 1))  # on this machine
MACHINES = int(os.environ.get("WORLD_SIZE", 1)) // PROCESSES


class Reader(lightning.LightningModule):
    def __init__(self, learning_rate: float) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], number: int) -> None:
        images, labels = batch
        is_right = (self.net(images).argmax(1) == labels).float().mean()
        self.log("accuracy", is_right, batch_size=len(labels), sync_dist=True)

    def on_train_epoch_end(self) -> None:
        found = self.trainer.callback_metrics
        if self.trainer.is_global_zero:
            epoch, epochs = self.current_epoch + 1, self.trainer.max_epochs
            print(f"epoch {epoch}/{epochs}  loss {found['loss']:.4f}  accuracy {found['accuracy']:.3f}", flush=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    arguments = parser.parse_args()

    lightning.seed_everything(0, verbose=False)
    training, test = digits()
    trainer = lightning.Trainer(
        accelerator="auto",
        strategy="ddp" if PROCESSES * MACHINES > 1 else "auto",
        devices=PROCESSES,
        num_nodes=MACHINES,
        max_epochs=arguments.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        Reader(arguments.learning_rate),
        DataLoader(training, batch_size=arguments.batch_size, shuffle=True),
        DataLoader(test, batch_size=256),
    )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return the pictures to learn from, and every fifth to test with."""
    found = load_digits()
    images, labels = torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(images[~is_test], labels[~is_test]), TensorDataset(images[is_test], labels[is_test])


if __name__ == "__main__":
    main()

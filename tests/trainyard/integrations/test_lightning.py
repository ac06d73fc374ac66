"""Lightning's own Trainer trains a small net, and its metrics and hyperparameters are in the spool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import trainyard
from tests.trainyard.sdk.test_description import descriptions
from tests.trainyard.spooled import points, producers
from trainyard.integrations.lightning import TrainyardLogger


class Line(pl.LightningModule):
    def __init__(self, rate: float = 0.1, fails_at: int = -1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(1, 1)
        self.losses: list[float] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        if self.global_step == self.hparams["fails_at"]:
            raise RuntimeError("as it was told")
        loss = (self.layer(batch[0]) - batch[1]).pow(2).mean()
        self.losses.append(loss.item())
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["rate"])


def fit(line: Line, logger: TrainyardLogger, folder: Path) -> None:
    data = DataLoader(TensorDataset(torch.arange(8.0)[:, None], torch.arange(8.0)[:, None]), batch_size=2)
    trainer = pl.Trainer(
        max_epochs=2, logger=logger, log_every_n_steps=1, accelerator="cpu", default_root_dir=folder,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(line, data)


pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own advice


def test_metrics_and_hyperparameters_of_a_fit_are_in_the_run(spool: Path, tmp_path: Path) -> None:
    line = Line()
    logger = TrainyardLogger(name="line", tags=["pl"])
    fit(line, logger, tmp_path)
    trainyard.finish()
    [frames] = producers(spool)
    assert points(frames)["train/loss", ()] == [(step, loss) for step, loss in enumerate(line.losses)]
    assert len(line.losses) == 8 and logger.name == "line"
    last = descriptions(spool)[-1]
    assert (last.config, last.tags) == ({"rate": 0.1, "fails_at": -1}, ["pl"])


def test_a_fit_that_fails_makes_a_failed_run(spool: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="as it was told"):
        fit(Line(fails_at=3), TrainyardLogger(), tmp_path)
    assert producers(spool)[0][-1].payload["reason"] == "error: exit code 1"

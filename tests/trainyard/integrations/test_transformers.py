"""Transformers' own Trainer trains a small model, and its losses and arguments are in the spool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PretrainedConfig, Trainer, TrainingArguments

import trainyard
from tests.trainyard.sdk.test_description import descriptions
from tests.trainyard.spooled import points, producers
from trainyard.integrations.transformers import TrainyardCallback


class LineConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    model_type = "line"


class Line(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.config = LineConfig()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.layer(x) - labels).pow(2).mean()}


def trained(folder: Path, report_to: str = "none", **options: Any) -> Trainer:
    data = [{"x": torch.tensor([float(x)]), "labels": torch.tensor([float(x)])} for x in range(8)]
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=2, per_device_train_batch_size=2, logging_steps=1, use_cpu=True,
        learning_rate=0.25, report_to=report_to, save_strategy="no", disable_tqdm=True, eval_strategy="epoch",
        run_name="line",
    )  # fmt: skip
    trainer = Trainer(Line(), arguments, train_dataset=data, eval_dataset=data, **options)
    trainer.train()
    return trainer


pytestmark = pytest.mark.filterwarnings("ignore")  # Transformers' own advice


@pytest.mark.parametrize("way", ["callback", "report_to"])
def test_losses_and_arguments_of_a_training_are_in_the_run(spool: Path, tmp_path: Path, way: str) -> None:
    if way == "callback":
        trainer = trained(tmp_path, callbacks=[TrainyardCallback(tags=["hf"])])
    else:
        trainer = trained(tmp_path, report_to="trainyard")
    history = trainer.state.log_history
    assert trainyard.sdk.current().name == "line"
    trainyard.finish()
    [frames] = producers(spool)
    found = points(frames)
    assert found["train/loss", ()] == [(one["step"], one["loss"]) for one in history if "loss" in one]
    assert found["eval/loss", ()] == [(one["step"], one["eval_loss"]) for one in history if "eval_loss" in one]
    assert len(found["train/loss", ()]) == 8 and len(found["eval/loss", ()]) == 2
    assert found["train_total/loss", ()] == [(8, history[-1]["train_loss"])]
    last = descriptions(spool)[-1]
    assert last.config["learning_rate"] == 0.25 and last.config["model"]["model_type"] == "line"


def test_a_run_that_the_script_began_takes_the_training(spool: Path, tmp_path: Path) -> None:
    run = trainyard.init("mine")
    trained(tmp_path, report_to="trainyard")
    assert trainyard.sdk.current() is run and not run.is_finished

"""Keras' own fit trains a small model, and its figures and arguments are in the spool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras

import trainyard
from tests.trainyard.sdk.test_description import descriptions
from tests.trainyard.spooled import points, producers
from trainyard.integrations.keras import TrainyardCallback

pytestmark = pytest.mark.filterwarnings("ignore")  # Keras' own advice


def test_figures_of_a_fit_are_in_the_run(spool: Path) -> None:
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)], name="line")
    model.compile(optimizer=keras.optimizers.SGD(0.0625), loss="mse")
    x = torch.arange(8.0)[:, None].numpy()
    callback = TrainyardCallback(every=2, tags=["keras"])
    history = model.fit(x, x, batch_size=2, epochs=3, validation_data=(x, x), verbose=0, callbacks=[callback]).history
    trainyard.finish()
    [frames] = producers(spool)
    found = points(frames)
    assert found["train/loss", ()] == list(enumerate(history["loss"]))
    assert found["val/loss", ()] == list(enumerate(history["val_loss"]))
    assert [step for step, _ in found["batch/loss", ()]] == [0, 2, 4, 6, 8, 10]
    last = descriptions(spool)[-1]
    assert last.config["optimizer"]["learning_rate"] == 0.0625 and last.config["epochs"] == 3
    assert last.tags == ["keras"]


def test_a_period_of_no_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="every=0"):
        TrainyardCallback(every=0)

"""The final weights in the output folder: whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from workers.training.build import Training
from workers.training.files import write_whole

WEIGHTS = "model.safetensors"
CONFIG = "model.json"


def save_weights(training: Training, config: dict[str, Any], folder: Path) -> None:
    """Write ``model.safetensors`` and ``model.json`` into ``folder`` on rank 0. Every rank calls it.

    The config goes first: weights that are there can always be read.
    """
    if training.mesh.rank != 0:
        return
    tensors: dict[str, torch.Tensor] = {
        name: parameter.detach().to("cpu").contiguous() for name, parameter in training.parameters().items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2) + "\n"
    write_whole(folder / CONFIG, lambda temporary: temporary.write_text(text))
    write_whole(folder / WEIGHTS, lambda temporary: save_file(tensors, temporary, metadata={"format": "pt"}))

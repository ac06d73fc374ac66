"""Small tasks of the recipes for images and tables, on what every machine has built in."""

from __future__ import annotations

from typing import Any

RESNET = {"recipe": "image-classifier", "model": {"architecture": "resnet", "layers": 3, "width": 4}}
VIT = {"recipe": "image-classifier", "model": {"architecture": "vit", "layers": 2, "width": 16, "heads": 4, "patch": 2}}
TABLE = {"recipe": "tabular", "model": {"layers": 2, "width": 16}}
QUANTITY = {**TABLE, "data": {"source": "diabetes"}}


def with_layers(task: dict[str, Any], layers: int) -> dict[str, Any]:
    """Return ``task`` with a deeper model."""
    return {**task, "model": {**task["model"], "layers": layers}}

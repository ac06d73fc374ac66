"""Which model a spec's task trains, with what is known of its data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from trainyard.planner.architectures.gpt import GPT
from trainyard.planner.architectures.mlp import MLP
from trainyard.planner.architectures.resnet import ResNet
from trainyard.planner.architectures.tape import Pass, Section
from trainyard.planner.architectures.vit import ViT
from trainyard.planner.machines.facts import DataFacts

BYTES = 256  # tokens of a text in bytes
BUILT_IN = {
    "digits": DataFacts(num_rows=1_797, num_classes=10, channels=1, image_size=8),
    "breast-cancer": DataFacts(num_rows=569, num_features=30, num_classes=2),
    "iris": DataFacts(num_rows=150, num_features=4, num_classes=3),
    "wine": DataFacts(num_rows=178, num_features=13, num_classes=3),
    "diabetes": DataFacts(num_rows=442, num_features=10, num_classes=0),
}
# What is assumed where nobody has looked at the data yet.
ASSUMED = {"num_features": 32, "num_classes": 10, "channels": 3, "image_size": 32}
WORDS = {
    "num_features": "columns of the table",
    "num_classes": "classes",
    "channels": "channels of an image",
    "image_size": "pixels of an image's side",
}


class Model(Protocol):
    """What each model's file says of it."""

    def __hash__(self) -> int: ...

    @property
    def layers(self) -> int: ...

    def sections(self, at: Pass) -> list[Section]:
        """Return what comes before the blocks, the blocks, and what comes behind them, with the loss. Blocks that are
        alike are one and the same object, with the names of the first."""

    def flow(self, at: Pass) -> list[float]:
        """Return the bytes of what flows out of each block."""

    def batch_bytes(self, rows: int) -> float:
        """Return the bytes of so many rows as they come from the data."""


@lru_cache(maxsize=256)
def sections_of(model: Model, at: Pass) -> list[Section]:
    """Return the model's sections, made once: plans that are compared ask for the same ones again and again."""
    return model.sections(at)


class Found(NamedTuple):
    """``unit`` is what throughput counts, of which a row has ``units_per_row``; ``assumptions`` are in words."""

    model: Model
    unit: str
    units_per_row: int
    assumptions: tuple[str, ...]


def find_model(task: Mapping[str, Any], data: DataFacts | None = None) -> Found:
    """Return the model of a resolved spec's ``task``. Raises ValueError for a recipe that trains none."""
    recipe, sizes = task["recipe"], task["model"]
    if recipe == "language-model":
        kv_heads = sizes["heads"] if sizes["kv_heads"] == "auto" else int(sizes["kv_heads"])
        vocabulary = BYTES if task["data"]["tokens"] == "bytes" else task["data"]["vocabulary"]
        gpt = GPT(sizes["layers"], sizes["width"], sizes["heads"], kv_heads, sizes["context"], vocabulary)
        return Found(gpt, "tokens", sizes["context"], ())
    if recipe not in ("image-classifier", "tabular"):
        raise ValueError(f"task.recipe is {recipe!r}, which trains no model")
    known = Known(task["data"], data)
    outputs = known.number("num_classes") or 1
    if recipe == "tabular":
        table = MLP(sizes["layers"], sizes["width"], known.number("num_features"), outputs)
        return Found(table, "samples", 1, known.assumptions())
    channels, size = known.number("channels"), known.number("image_size")
    model: Model
    if sizes["architecture"] == "resnet":
        model = ResNet(sizes["layers"], sizes["width"], channels, size, outputs)
    else:
        model = ViT(sizes["layers"], sizes["width"], sizes["heads"], sizes["patch"], channels, size, outputs)
    return Found(model, "samples", 1, known.assumptions())


def model_flops(task: Mapping[str, Any], data: DataFacts | None = None) -> float:
    """Return the FLOPs of one row, forward and backward, as the mathematics has them: nothing computed twice.

    Products of matrices, convolutions and attention count, two for each multiplication and addition (Chowdhery et al.
    2022, appendix B: the model FLOPs of MFU). Raises ValueError for a recipe that trains no model.
    """
    return sum(section.flops() for section in sections_of(find_model(task, data).model, Pass(1)))


class Known:
    """Looks numbers up in what was measured, is built in, or is written in the spec; else assumes them."""

    def __init__(self, data: Mapping[str, Any], facts: DataFacts | None) -> None:
        self._source = data["source"]
        self._facts = [one for one in (facts, BUILT_IN.get(self._source)) if one is not None]
        self._size = data.get("image_size") if self._source == "images" else None
        self._assumed: list[str] = []

    def number(self, name: str) -> int:
        if name == "image_size" and self._size is not None:
            return int(self._size)
        for facts in self._facts:
            value = getattr(facts, name)
            if value is not None:
                return int(value)
        self._assumed.append(name)
        return ASSUMED[name]

    def assumptions(self) -> tuple[str, ...]:
        """Return in words what was not known so far."""
        if not self._assumed:
            return ()
        words = ", ".join(f"{ASSUMED[name]} {WORDS[name]}" for name in self._assumed)
        return (f"Nobody has looked at the data yet: {words} are assumed.",)

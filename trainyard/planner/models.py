"""Model that a spec's task trains, with what is known of its data."""

from functools import lru_cache
from typing import NamedTuple

from trainyard.contract.base import JsonObject
from trainyard.planner.architectures.samples import MLP, ResNet
from trainyard.planner.architectures.transformer import GPT, ViT
from trainyard.planner.machines import DataFacts
from trainyard.spec.strategies.costs import Model, Pass, Section

BYTES = 256  # tokens of a text in bytes
BUILT_IN = {
    "digits": DataFacts(num_rows=1_797, num_classes=10, channels=1, image_size=8),
    "breast-cancer": DataFacts(num_rows=569, num_features=30, num_classes=2),
    "iris": DataFacts(num_rows=150, num_features=4, num_classes=3),
    "wine": DataFacts(num_rows=178, num_features=13, num_classes=3),
    "diabetes": DataFacts(num_rows=442, num_features=10, num_classes=0),
}
# Assumptions where the data was not inspected yet, and their names.
ASSUMED = {
    "num_features": (32, "columns of the table"),
    "num_classes": (10, "classes"),
    "channels": (3, "channels of an image"),
    "image_size": (32, "pixels of an image's side"),
}


@lru_cache(maxsize=256)
def sections_of(model: Model, at: Pass) -> list[Section]:
    """Return the model's sections, made once: plans that are compared need the same ones again and again."""
    return model.sections(at)


class ModelOfTask(NamedTuple):
    """``unit`` is what throughput counts, of which a row has ``units_per_row``; ``assumptions`` are in words."""

    model: Model
    unit: str
    units_per_row: int
    assumptions: tuple[str, ...]


def find_model(task: JsonObject, data: DataFacts | None = None) -> ModelOfTask:
    """Return the model of a resolved spec's ``task``. Raises ValueError for a recipe that trains none."""
    recipe, sizes = task["recipe"], task["model"]
    if recipe == "language-model":
        kv_heads = sizes["heads"] if sizes["kv_heads"] == "auto" else int(sizes["kv_heads"])
        vocabulary = BYTES if task["data"]["tokens"] == "bytes" else task["data"]["vocabulary"]
        gpt = GPT(sizes["layers"], sizes["width"], sizes["heads"], kv_heads, sizes["context"], vocabulary)
        return ModelOfTask(gpt, "tokens", sizes["context"], ())
    if recipe not in ("image-classifier", "tabular"):
        raise ValueError(f"task.recipe is {recipe!r}, which trains no model")
    names = ("num_classes", "num_features") if recipe == "tabular" else ("num_classes", "channels", "image_size")
    known, assumptions = _numbers(names, task["data"], data)
    outputs = known["num_classes"] or 1
    model: Model
    if recipe == "tabular":
        model = MLP(sizes["layers"], sizes["width"], known["num_features"], outputs)
    elif sizes["architecture"] == "resnet":
        model = ResNet(sizes["layers"], sizes["width"], known["channels"], known["image_size"], outputs)
    else:
        shape = known["channels"], known["image_size"], outputs
        model = ViT(sizes["layers"], sizes["width"], sizes["heads"], sizes["patch"], *shape)
    return ModelOfTask(model, "samples", 1, assumptions)


def model_flops(task: JsonObject, data: DataFacts | None = None) -> float:
    """Return the FLOPs of one row, forward and backward, as the mathematics has them: nothing computed twice.

    Products of matrices, convolutions and attention count, two for each multiplication and addition (Chowdhery et al.
    2022, appendix B: the model FLOPs of MFU). Raises ValueError for a recipe that trains no model.
    """
    return sum(section.flops() for section in sections_of(find_model(task, data).model, Pass(1)))


def _numbers(
    names: tuple[str, ...], data: JsonObject, facts: DataFacts | None
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the numbers as they are written in the spec, measured or built in, else assumed; and what is assumed."""
    found: dict[str, int] = {}
    assumed = []
    for name in names:
        written = data.get(name) if data["source"] == "images" else None
        known = [getattr(one, name) for one in (facts, BUILT_IN.get(data["source"])) if one is not None]
        value = next((one for one in (written, *known) if one is not None), None)
        if value is None:
            value, words = ASSUMED[name]
            assumed.append(f"{value} {words}")
        found[name] = int(value)
    return found, (f"The data was not inspected yet: {', '.join(assumed)} are assumed.",) if assumed else ()

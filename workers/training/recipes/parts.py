"""Cut of the models of all recipes into the parts of a pipeline: they are built alike."""

from typing import Protocol

from torch import nn


class Sequence(Protocol):
    """A model in four steps, one after the other. What a part of it does not hold is None, and not among its layers,
    which are by name and not by place in a list: those that stay keep their names."""

    embedding: nn.Module | None
    layers: nn.ModuleDict
    norm: nn.Module | None
    head: nn.Module | None


def keep_part(model: Sequence, index: int, num_parts: int) -> None:
    """Drop from the whole ``model`` what does not belong to part ``index``: layers in equal runs, the longer ones
    first, the embedding to the first part, norm and head to the last."""
    names = list(model.layers)
    kept = run_of(len(names), index, num_parts)
    for place, name in enumerate(names):
        if place not in kept:
            del model.layers[name]
    if index > 0:
        model.embedding = None
    if index < num_parts - 1:
        model.norm = None
        model.head = None


def run_of(number: int, index: int, num_parts: int) -> range:
    """Return which of ``number`` things are in run ``index``: equal runs, the longer ones first."""
    short, num_longer = divmod(number, num_parts)
    first = index * short + min(index, num_longer)
    return range(first, first + short + (index < num_longer))

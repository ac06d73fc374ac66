"""What the models of all recipes have in common, since they are built alike: first weights, norms, and the cut into the
parts of a pipeline."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.distributed.tensor.parallel import ParallelStyle

from workers.training.data.batches.order import Batch


class Chain(nn.Module):
    """A model in four steps, one after the other. What a part of it does not hold is None, and not among its layers,
    which are by name and not by place in a list: those that stay keep their names."""

    embedding: nn.Module | None
    layers: nn.ModuleDict
    norm: nn.Module | None
    head: nn.Module | None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x, *self.beside())
        if self.norm is not None:
            x = self.norm(x)
        return x if self.head is None else self.head(x)

    def beside(self) -> tuple[torch.Tensor, ...]:
        """Return what each layer takes beside what flows."""
        return ()


class ChainTask:
    """The half of a recipe's task that goes by the model alone, which is a ``Chain``."""

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs, targets = batch
        return self.criterion(model(inputs), targets)

    def keep_part(self, model: nn.Module, index: int, num_parts: int) -> None:
        assert isinstance(model, Chain)
        keep_part(model, index, num_parts)

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        assert isinstance(model, Chain)
        return list(model.layers.values())


class Norm(nn.LayerNorm):
    """Layer normalisation in the type of what it normalises: gains that ranks share arrive in that of the matrices,
    which a CPU's kernel does not mix."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias: Any = self.bias
        bias = None if bias is None else bias.to(x.dtype)
        return F.layer_norm(x, self.normalized_shape, self.weight.to(x.dtype), bias, self.eps)


@torch.no_grad()
def initialize(model: Chain, zeros: tuple[str, ...], std: Callable[[int], float], normal: tuple[str, ...] = ()) -> None:
    """Draw the weights: of matrices and kernels by how many numbers go into each output. ``zeros`` and ``normal`` are
    ends of names: what writes into the residual stream starts at zero, so that every block starts as identity, and the
    outputs too; ``normal`` ones have a deviation of 1."""
    for name, parameter in model.named_parameters():
        if name.endswith(zeros):
            parameter.zero_()
        elif name.endswith(normal):
            parameter.normal_()
        elif parameter.ndim > 1:
            parameter.normal_(std=std(parameter[0].numel()))


def refuse_sizes(shape: object, *names: str) -> None:
    """Raise ValueError, naming the field of the spec, for a size that is given and below 1."""
    for name in names:
        if (size := getattr(shape, name)) is not None and size < 1:
            raise ValueError(f"task.model.{name} is {size}; accepted are numbers from 1")


def keep_part(model: Chain, index: int, num_parts: int) -> None:
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
        model.norm = model.head = None


def run_of(number: int, index: int, num_parts: int) -> range:
    """Return which of ``number`` things are in run ``index``: equal runs, the longer ones first."""
    short, num_longer = divmod(number, num_parts)
    first = index * short + min(index, num_longer)
    return range(first, first + short + (index < num_longer))


WHOLE = [Replicate()]


class Alike(ParallelStyle):
    """A module that every rank holds whole, with all within it, and that maps the same input to the same output.
    Its gradients are whole on each rank by themselves: nothing is sent.

    ``is_last`` is that of the module whose output is the model's: a copy, for shards do not take a view from a model.
    """

    def __init__(self, *, is_last: bool = False) -> None:
        super().__init__()
        self.is_last = is_last

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        # Without a word to the others: all have drawn the same weights.
        for part in module.modules():
            for name, parameter in list(part.named_parameters(recurse=False)):
                spread = DTensor.from_local(parameter.data, device_mesh, WHOLE, run_check=False)
                part.register_parameter(name, nn.Parameter(spread, requires_grad=parameter.requires_grad))
        return distribute_module(module, device_mesh, None, _take_whole, self._give_whole)  # type: ignore[arg-type]

    def _give_whole(self, module: nn.Module, outputs: DTensor, device_mesh: DeviceMesh) -> torch.Tensor:
        whole = outputs.to_local()
        return whole.clone() if self.is_last else whole


def _take_whole(module: nn.Module, inputs: tuple[Any, ...], device_mesh: DeviceMesh) -> tuple[Any, ...]:
    return tuple(DTensor.from_local(one, device_mesh, WHOLE, run_check=False) for one in inputs)

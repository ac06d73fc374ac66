"""Modules that every tensor-parallel rank computes alike: those that are too small to be cut."""

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.distributed.tensor.parallel import ParallelStyle

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

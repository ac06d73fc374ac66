"""What the planner counts of each model is what the model has, computes and keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from trainyard.planner.architectures import samples as mlp_costs
from trainyard.planner.architectures import samples as resnet_costs
from trainyard.planner.architectures import transformer as transformer_costs
from trainyard.spec.strategies.costs import Model, Pass
from workers.training.recipes import gpt, resnet, tabular, vit

ROWS = 3
GPT = transformer_costs.GPT(layers=3, width=24, heads=4, kv_heads=4, context=20, vocabulary=50)
SHARED = dataclasses.replace(GPT, kv_heads=2)
VIT = transformer_costs.ViT(layers=2, width=24, heads=3, patch=2, channels=3, size=8, outputs=7)
RESNET = resnet_costs.ResNet(layers=5, width=8, channels=2, size=16, outputs=5)
SMALL_RESNET = resnet_costs.ResNet(layers=3, width=16, channels=1, size=8, outputs=10)
MLP = mlp_costs.MLP(layers=3, width=24, features=10, outputs=4)
QUANTITY = mlp_costs.MLP(layers=1, width=16, features=5, outputs=1)
COSTS: dict[str, Model] = {
    "gpt": GPT, "grouped queries": SHARED, "vit": VIT, "resnet": RESNET, "small resnet": SMALL_RESNET, "mlp": MLP,
    "quantity": QUANTITY,
}  # fmt: skip
MODULES = {transformer_costs.GPT: gpt, transformer_costs.ViT: vit, resnet_costs.ResNet: resnet, mlp_costs.MLP: tabular}


def real(costs: Any) -> nn.Module:
    """Return the module that ``costs`` counts: shapes have the same fields."""
    module = MODULES[type(costs)]
    name = type(costs).__name__
    made: nn.Module = getattr(module, name)(module.Shape(**dataclasses.asdict(costs)))  # type: ignore[attr-defined]
    return made


def loss_of(costs: Any, model: nn.Module) -> torch.Tensor:
    """Return the loss of ROWS rows."""
    if isinstance(costs, transformer_costs.GPT):
        tokens = torch.zeros(ROWS, costs.context, dtype=torch.int64)
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    if isinstance(costs, mlp_costs.MLP):
        inputs = torch.rand(ROWS, costs.features)
    else:
        inputs = torch.rand(ROWS, costs.channels, costs.size, costs.size)
    outputs = model(inputs)
    if costs.outputs == 1:
        return F.mse_loss(outputs.squeeze(1), torch.zeros(ROWS))
    return F.cross_entropy(outputs, torch.zeros(ROWS, dtype=torch.int64))


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_every_tensor_of_the_model_is_counted(costs: Any) -> None:
    counted = [one.shape for section in costs.sections(Pass(1)) for one in section.parameters]
    assert sorted(counted) == sorted(tuple(one.shape) for one in real(costs).parameters())


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_names_are_those_of_the_model(costs: Any) -> None:
    counted = {one.name for section in costs.sections(Pass(1)) for one in section.parameters}
    assert counted <= {name for name, _ in real(costs).named_parameters()}


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_flops_are_those_that_torch_counts(costs: Any) -> None:
    model = real(costs)
    # Where the kernel of a CPU computes attention torch's counter sees nothing of it: products apart, it does.
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        loss_of(costs, model).backward()
    counted = sum(section.flops() for section in costs.sections(Pass(ROWS)))
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_what_autograd_keeps_is_what_is_counted(costs: Any, precision: str) -> None:
    model = real(costs)
    weights = {one.untyped_storage().data_ptr() for one in [*model.parameters(), *model.buffers()]}
    kept: dict[int, torch.UntypedStorage] = {}  # held, so that no address is given out twice

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"),
    ):
        loss_of(costs, model)
    real_bytes = sum(storage.nbytes() for address, storage in kept.items() if address not in weights)
    counted = sum(section.kept for section in costs.sections(Pass(ROWS, precision)))
    assert counted == pytest.approx(real_bytes, rel=0.02 if precision == "fp32" else 0.12)

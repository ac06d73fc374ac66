"""Optimizers and schedules of the learning rate, by the names that a spec gives them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

ADAM_BETAS = (0.9, 0.95)
SGD_MOMENTUM = 0.9

Group = dict[str, Any]  # a parameter group of torch.optim
RateScale = Callable[[str], float]  # by a parameter's name in the whole model: what its learning rate is multiplied by
Schedule = Callable[[int], float]

# Of the steps behind the warm-up, the share in which warmup-stable-decay falls. A tenth is enough (Hu et al. 2024,
# section 4.2); with a fifth it ends where cosine ends (Hägele et al. 2024, section 3), at a few hundred steps too.
DECAY_SHARE = 0.2

# Share of the peak after warm-up, for a progress from 0 (first step behind it) towards 1 (never reached).
SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),  # Loshchilov & Hutter 2017, equation 5
    # Hu et al. 2024, equation 1: the peak, then a fall that any checkpoint from before it can make anew.
    "warmup-stable-decay": lambda progress: min(1.0, (1.0 - progress) / DECAY_SHARE),
}


def make_optimizer(
    name: str,
    parts: Sequence[nn.Module],
    blocks: Iterable[nn.Module],
    *,
    weight_decay: float,
    rate_scale: RateScale = lambda _: 1.0,
) -> torch.optim.Optimizer:
    """Return the optimizer over the parameters of ``parts``; the loop sets the learning rate before each step, by
    ``set_rate``.

    ``adamw`` is decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), ``sgd`` has momentum 0.9, ``muon`` is
    for the matrices of ``blocks``, beside adamw for the rest. Raises ValueError for muon where torch has none.
    """
    scales = {p: rate_scale(key) for part in parts for key, p in part.named_parameters() if p.requires_grad}
    parameters = list(scales)
    # fused: one kernel over all parameters, a quarter of the time of the loop over tensors on a CPU.
    if name == "adamw":
        return make_adamw(parameters, weight_decay, scales)
    if name == "sgd":
        # torch has no fused step of SGD over DTensors.
        is_spread = any(isinstance(parameter, DTensor) for parameter in parameters)
        groups = decay_groups(parameters, weight_decay, scales)
        return torch.optim.SGD(groups, lr=0.0, momentum=SGD_MOMENTUM, fused=not is_spread, foreach=is_spread)
    return make_muon(scales, blocks, weight_decay)


def make_adamw(
    parameters: Iterable[nn.Parameter], weight_decay: float, scales: Mapping[nn.Parameter, float]
) -> torch.optim.Optimizer:
    return torch.optim.AdamW(decay_groups(parameters, weight_decay, scales), lr=0.0, betas=ADAM_BETAS, fused=True)


def make_muon(
    scales: Mapping[nn.Parameter, float], blocks: Iterable[nn.Module], weight_decay: float
) -> torch.optim.Optimizer:
    """Return Muon (Jordan et al. 2024) over the matrices of ``blocks`` and AdamW over embedding, head and gains, which
    are no linear maps between hidden states.

    Muon's steps are scaled to the size that AdamW's have (Liu et al. 2025, equation 4), so that one learning rate and
    one weight decay serve both. Raises ValueError where this torch has no Muon.
    """
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"train.optimizer is 'muon', but torch {torch.__version__} has no torch.optim.Muon (2.9 and later have); "
            "accepted here are adamw, sgd"
        )
    in_blocks = {id(p) for block in blocks for p in block.parameters() if p.ndim == 2}
    matrices = [p for p in scales if id(p) in in_blocks]
    others = [p for p in scales if id(p) not in in_blocks]
    members: list[torch.optim.Optimizer] = []
    if matrices:
        members.append(torch.optim.Muon(matrices, lr=0.0, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"))
    if others:
        members.append(make_adamw(others, weight_decay, scales))
    return Together(members)


class Together(torch.optim.Optimizer):
    """Several optimizers that look like one: the groups of all, and one state by parameter."""

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        super().__init__([group for member in members for group in member.param_groups], {})
        self.members = list(members)
        # The very groups and the very state: what is set or put back here is there for the members.
        self.param_groups = [group for member in members for group in member.param_groups]
        for member in self.members:
            member.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for member in self.members:
            member.step()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "members": self.members}  # a copy must bring its members


def decay_groups(
    parameters: Iterable[nn.Parameter], weight_decay: float, scales: Mapping[nn.Parameter, float]
) -> list[Group]:
    """Return parameter groups: matrices, which decay, and gains and biases, which must be free to leave zero; each
    apart by the scale of its rate, and by how its tensors are spread, for one kernel takes only tensors of one kind."""
    groups: dict[tuple[bool, float, object], Group] = {}
    for parameter in parameters:
        decays = parameter.ndim >= 2
        spread = (parameter.device_mesh, parameter.placements) if isinstance(parameter, DTensor) else None
        scale = scales[parameter]
        decay = weight_decay / scale if decays else 0.0
        empty: Group = {"params": [], "decays": decays, "rate_scale": scale, "weight_decay": decay}
        groups.setdefault((decays, scale, spread), empty)["params"].append(parameter)
    # Matrices first, whichever came first: a checkpoint's order and a reader's.
    return [groups[key] for key in sorted(groups, key=lambda key: not key[0])]


def set_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group.get("rate_scale", 1.0)


def set_weight_decay(optimizer: torch.optim.Optimizer, weight_decay: float) -> None:
    """Set the decay of what decays. Its product with the learning rate is the same in all groups: how fast weights are
    forgotten does not go with the width."""
    for group in optimizer.param_groups:
        if group.get("decays", True):
            group["weight_decay"] = weight_decay / group.get("rate_scale", 1.0)


# Learning rate as a pure function of the step, so that a resumed run needs no schedule state.


def make_schedule(kind: str, *, peak: float, steps: int, warmup_steps: int) -> Schedule:
    """Return the learning rate for each optimizer step 1..steps.

    It climbs in equal parts and reaches ``peak`` at step ``warmup_steps``, then follows the shape, whose end (0 for
    all but constant) lies one step behind the last, so that no step is wasted.
    """

    def learning_rate(step: int) -> float:
        if step <= warmup_steps:
            return peak * step / warmup_steps
        return peak * SHAPES[kind]((step - 1 - warmup_steps) / max(1, steps - warmup_steps))

    return learning_rate

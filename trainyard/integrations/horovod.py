"""Horovod: the calls of ``horovod.torch`` over ``torch.distributed``. A run with ``task.launch: horovod`` finds this
file by that name, so that a script for Horovod runs with its import unchanged.

Gradients are divided, then added, as DistributedDataParallel does. It needs torch alone, so that an interpreter without
``trainyard`` has it too.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Average, Sum, Adasum = "Average", "Sum", "Adasum"  # the last is known, and refused
rank, size, shutdown = dist.get_rank, dist.get_world_size, dist.destroy_process_group


class Compression:
    """Types in which floats are sent."""

    none = None
    fp16 = torch.float16


def init() -> None:
    """Form the process group of all ranks, by torchrun's variables; one process without them is alone."""
    if not dist.is_initialized():
        is_alone = "RANK" not in os.environ
        alone: dict[str, Any] = {"init_method": "tcp://127.0.0.1:0", "rank": 0, "world_size": 1} if is_alone else {}
        kind = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(kind, **alone)


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def allreduce(
    tensor: Tensor, average: bool | None = None, name: str | None = None,
    compression: torch.dtype | None = Compression.none, op: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the tensor's average over all ranks, or its sum. An average of whole numbers is cut to one."""
    op, is_float = op or (Sum if average is False else Average), tensor.is_floating_point()
    if op not in (Average, Sum):
        raise ValueError(f"op={op}: Trainyard's horovod.torch reduces by Average or Sum")
    sent = tensor.detach().clone(memory_format=torch.contiguous_format)
    sent = sent.to(compression) if compression is not None and is_float else sent
    sent = sent.mul_(1 / size()) if op == Average and is_float else sent
    dist.all_reduce(sent)
    return (sent if op == Sum or is_float else sent.div_(size(), rounding_mode="trunc")).to(tensor.dtype)


def allgather(tensor: Tensor, name: str | None = None) -> Tensor:
    """Return the tensors of all ranks one behind the other. Their first dimensions may differ."""
    lengths: list[Any] = [None] * size()
    dist.all_gather_object(lengths, len(tensor))
    own = tensor.new_zeros((max(lengths), *tensor.shape[1:]))
    own[: len(tensor)] = tensor.detach()
    parts = [torch.empty_like(own) for _ in lengths]
    dist.all_gather(parts, own)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])


def broadcast(tensor: Tensor, root_rank: int, name: str | None = None) -> Tensor:
    sent = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.broadcast(sent, root_rank)
    return sent


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    found = [obj]
    dist.broadcast_object_list(found, root_rank)
    return found[0]


@torch.no_grad()
def broadcast_parameters(params: Mapping[str, Any] | Iterable[Any], root_rank: int) -> None:
    """``params``: a state_dict, named parameters or parameters."""
    for one in params.items() if isinstance(params, Mapping) else params:
        value = one[1] if isinstance(one, tuple) else one
        if isinstance(value, Tensor):
            value.copy_(broadcast(value, root_rank))


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Give all ranks what the root's optimizer holds, its learning rates too."""
    optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank))


class _Distributed(torch.optim.Optimizer):
    """An optimizer whose ``step`` first reduces the gradients of all ranks, all of a type in one collective."""

    _how: dict[str, Any]
    _skips = False

    def synchronize(self) -> None:
        """Wait until the gradients are those of all ranks. Raises ValueError for a sparse one."""
        held: dict[Any, list[Tensor]] = {}
        for one in (one for group in self.param_groups for one in group["params"] if one.requires_grad):
            one.grad = torch.zeros_like(one) if one.grad is None else one.grad
            if one.grad.is_sparse:
                raise ValueError("Trainyard's horovod.torch reduces dense gradients, and sparse=True has others")
            held.setdefault((one.grad.dtype, one.grad.device), []).append(one.grad)
        for grads in held.values():
            flat = allreduce(torch.cat([grad.reshape(-1) for grad in grads]), **self._how)
            for grad, part in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
                grad.copy_(part.view_as(grad))

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """The next ``step`` takes the gradients as ``synchronize``, and what followed it, have left them."""
        self._skips = True
        try:
            yield
        finally:
            self._skips = False

    def step(self, closure: Any = None) -> Any:
        if not self._skips:
            self.synchronize()
        return super().step(closure)


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, Any]] | None = None,
    compression: torch.dtype | None = Compression.none, backward_passes_per_step: int = 1, op: str = Average,
    gradient_predivide_factor: float = 1.0,
) -> Any:  # fmt: skip
    """Return the optimizer as one of its own class whose ``step`` takes the gradients of all ranks, summed over the
    backward passes before it. Raises ValueError for another ``op`` than Average and Sum, and for unnamed parameters."""
    own = [one for group in optimizer.param_groups for one in group["params"]]
    known = {id(one) for _, one in named_parameters} if named_parameters is not None else {id(one) for one in own}
    if missing := sum(id(one) not in known for one in own):
        raise ValueError(f"named_parameters lacks {missing} of the {len(own)} parameters of the optimizer")
    if op not in (Average, Sum) or gradient_predivide_factor != 1:
        words = f"op={op}, gradient_predivide_factor={gradient_predivide_factor}"
        raise ValueError(f"{words}: Trainyard's horovod.torch reduces by Average or Sum, without a factor")
    kind = type(optimizer)
    made: Any = object.__new__(type(kind.__name__, (_Distributed, kind), {}))
    made.__setstate__(optimizer.__getstate__())  # the same groups and state: a scheduler of either changes both
    made._how = {"op": op, "compression": compression}
    return made

"""The numbers that a model computes with: fp32, bf16, or fp16 with a scaled loss."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """``name`` is ``train.precision`` of a spec: the weights stay fp32, and autocast computes with the smaller kind.

    fp16 has no room for small gradients, so backward starts from the loss times a scale, which halves whenever a
    gradient overflows and doubles after 2,000 steps without (Micikevicius et al. 2018, section 3.2). Every rank finds
    the same overflow without asking: gradients are reduced before, and those of shards ask their mesh. Raises
    ValueError for a device that cannot compute with it.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self.dtype = DTYPES[name]
        if self.dtype is not None:
            refuse_inability(name, self.dtype, device)
        self._scaler = torch.amp.GradScaler(device.type) if name == "fp16" else None

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext() if self.dtype is None else torch.autocast(self.device.type, self.dtype)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return what backward starts from."""
        return loss if self._scaler is None else self._scaler.scale(loss)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the gradients their true size, before they are measured and clipped."""
        if self._scaler is not None:
            self._prepare()
            self._scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the optimizer's step, unless a gradient is not finite for want of range: then the scale falls."""
        if self._scaler is None:
            optimizer.step()
        else:
            self._scaler.step(optimizer)
            self._scaler.update()

    def state(self) -> dict[str, float]:
        """Return what a checkpoint must keep: nothing but for fp16, whose next scale depends on the steps before."""
        if self._scaler is None:
            return {}
        state = self._scaler.state_dict()
        return {"scale": state["scale"], "num_good_steps": state["_growth_tracker"]}

    def load(self, state: Mapping[str, float]) -> None:
        """Restore what ``state`` returned. The state of another precision is of no use: the scale is found anew."""
        if self._scaler is not None and state:
            kept = {"scale": float(state["scale"]), "_growth_tracker": int(state["num_good_steps"])}
            self._prepare()
            self._scaler.load_state_dict({**self._scaler.state_dict(), **kept})

    def _prepare(self) -> None:
        """Let the scaler make its tensors. A rank of a pipeline whose parts know no loss has never scaled one."""
        assert self._scaler is not None
        if self._scaler._scale is None:
            self._scaler._lazy_init_scale_growth_tracker(self.device)


def refuse_inability(name: str, dtype: torch.dtype, device: torch.device) -> None:
    """Raise ValueError where ``device`` cannot multiply matrices of ``dtype``, or only pretends to."""
    is_bf16_of_cuda = device.type == "cuda" and dtype == torch.bfloat16
    if is_bf16_of_cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        major, minor = torch.cuda.get_device_capability(device)
        raise ValueError(
            f"train.precision is {name!r}, but {torch.cuda.get_device_name(device)} (compute capability {major}."
            f"{minor}) computes with bf16 from 8.0 on; accepted here are fp32, fp16"
        )
    try:
        matrix = torch.ones(2, 2, dtype=dtype, device=device)
        torch.mm(matrix, matrix)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"train.precision is {name!r}, but the device {device} cannot compute with it ({reason}); fp32 always works"
        ) from error

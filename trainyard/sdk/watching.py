"""Histograms of a model's weights and gradients, logged beside what the script logs itself."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal

from trainyard.formats.media import Histogram

if TYPE_CHECKING:
    from trainyard.sdk.run import Run

Watched = Literal["gradients", "parameters", "all"]


def watch(run: Run, model: Any, log: Watched, every: int) -> None:
    """See ``Run.watch``. The hooks go with the model; they keep neither it nor its parameters alive."""
    if log not in ("gradients", "parameters", "all"):
        raise ValueError(f"watch: log={log!r} is none of gradients, parameters, all")
    if every < 1:
        raise ValueError(f"watch: every={every!r} is no whole number from 1 up")
    if not callable(getattr(model, "named_parameters", None)):
        raise TypeError(f"watch: a {type(model).__name__} is no module of PyTorch")
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.register_hook(_hook(run, name, weakref.ref(parameter), log, every))


def _hook(run: Run, name: str, parameter: weakref.ref[Any], log: Watched, every: int) -> Any:
    num_passes = 0

    def on_gradient(gradient: Any) -> None:
        nonlocal num_passes
        num_passes += 1
        if (num_passes - 1) % every or run.is_finished:
            return
        kept = {}
        if log != "parameters":
            kept[f"gradients/{name}"] = Histogram(gradient)
        if log != "gradients" and (weights := parameter()) is not None:
            kept[f"parameters/{name}"] = Histogram(weights)
        run.log(kept, commit=False)

    return on_gradient

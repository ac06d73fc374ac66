"""What ranks send each other in a step, as torch's flight recorder has seen it."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.workers.training.ranks import train_on

STEP = 2


class Message(NamedTuple):
    """A collective with what a rank puts in. gloo has no reduce-scatter: it shows as all_reduce."""

    kind: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def nothing() -> None:
    """Leave the ranks as they are."""


def messages(world: int, spec: dict[str, Any], setup: Callable[[], None] = nothing) -> list[Message]:
    """Return what rank 0 takes part in during the passes of step 2: the optimizer and the norm are not in it."""
    points = train_on(world, spec, setup=functools.partial(_watched, setup), TORCH_FR_BUFFER_SIZE="10000")[0]
    told = [labels["message"] for name, _, labels, _ in points if name == "message"]
    return [Message(kind, tuple(shape), dtype) for kind, shape, dtype in map(json.loads, told)]


def _watched(setup: Callable[[], None]) -> None:
    from workers.training import main
    from workers.training.passes import PlainPasses

    setup()
    plain_train, plain_loop = PlainPasses.train, main.run_loop
    seen: list[dict[str, Any]] = []

    def train(self: PlainPasses, step: int) -> Any:
        num_before = len(recorded())
        passed = plain_train(self, step)
        if step == STEP:
            seen.extend(recorded()[num_before:])
        return passed

    def run_loop(training: Any, recorder: Any, *rest: Any) -> None:
        plain_loop(training, recorder, *rest)
        for entry in seen:
            kind = entry["profiling_name"].removeprefix("gloo:")
            message = json.dumps([kind, entry["input_sizes"][0], entry["input_dtypes"][0]])
            recorder.points.append(("message", STEP, {"message": message}, 0.0))

    PlainPasses.train = train  # type: ignore[method-assign]
    main.run_loop = run_loop


def recorded() -> list[dict[str, Any]]:
    import torch

    found: list[dict[str, Any]] = json.loads(torch._C._distributed_c10d._dump_fr_trace_json())["entries"]
    return found

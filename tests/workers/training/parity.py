"""Is it the same mathematics? Losses of every step and gradients of the first, against one process alone."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.workers.training.ranks import Point, series, tiny_spec, train_on

STEPS = 20
SHAPE = {"layers": 4, "width": 16, "heads": 4, "context": 16}
GRADIENT = "gradient:"  # of a point that carries one number of a gradient of the first step


def nothing() -> None:
    """Leave the ranks as they are."""


class Distance(NamedTuple):
    """The largest relative differences. Of gradients: the norm of the difference over the norm, for each parameter."""

    loss: float
    validation: float
    gradient: float


def distance(world: int, parallel: dict[str, Any], *, setup: Callable[[], None] = nothing, **changes: Any) -> Distance:
    """Train on ``world`` ranks in that way and alone, and return how far apart they are.

    ``changes`` go to both specs, but for ``apart``, which goes to the spread one alone. ``setup`` runs in each of the
    spread ranks: the way to leave something out.
    """
    apart = {"parallel": parallel, **changes.pop("apart", {})}
    changes = {"steps": STEPS, "model": SHAPE, **changes}
    alone = _alone(json.dumps(changes, sort_keys=True))
    spread = train_on(world, tiny_spec(world=world, **{**changes, **apart}), setup=functools.partial(_watched, setup))
    points = [point for rank in spread for point in rank]
    return Distance(
        _largest(series(alone, "train/loss"), series(points, "train/loss")),
        _largest(series(alone, "val/loss"), series(points, "val/loss")),
        _gradient_distance(gradients(alone), gradients(points)),
    )


@functools.cache
def _alone(changes: str) -> list[Point]:
    (points,) = train_on(1, tiny_spec(**json.loads(changes)), setup=functools.partial(_watched, nothing))
    return points


def _largest(one: dict[int | None, float], other: dict[int | None, float]) -> float:
    assert one.keys() == other.keys(), (sorted(map(str, one)), sorted(map(str, other)))
    return max(abs(one[step] - other[step]) / abs(one[step]) for step in one)


def gradients(points: list[Point]) -> dict[str, np.ndarray]:
    """Return the gradients of the first step by parameter, as the ranks have told them."""
    found: dict[str, dict[int, float]] = {}
    for name, index, _, value in points:
        if name.startswith(GRADIENT) and index is not None:
            found.setdefault(name.removeprefix(GRADIENT), {})[index] = value
    return {name: np.array([numbers[index] for index in sorted(numbers)]) for name, numbers in found.items()}


def _gradient_distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    scale = max(float(np.linalg.norm(gradient)) for gradient in one.values())
    # A gradient that is zero by the way the weights start has no scale of its own.
    return max(
        float(np.linalg.norm(one[name] - other[name])) / max(float(np.linalg.norm(one[name])), 1e-3 * scale)
        for name in one
    )


def _watched(setup: Callable[[], None]) -> None:
    """In a rank: tell the whole gradients of the first step, before they are clipped."""
    import torch
    from torch.distributed.tensor import DTensor

    from workers.training import loop
    from workers.training.recipes import gpt

    initialize = gpt.initialize

    def initialize_all(model: Any) -> None:
        """What starts at zero would give most parameters a first gradient of zero, which shows nothing."""
        initialize(model)
        with torch.no_grad():
            for parameter in model.parameters():
                if not parameter.any():
                    parameter.normal_(std=0.1)

    gpt.initialize = initialize_all
    setup()
    plain, told = loop.clip, []
    take_step = loop.take_step
    metrics: list[Any] = []
    run_loop = loop.run_loop

    def told_clip(training: Any) -> None:
        told.append(True)
        for name, parameter in training.parameters().items():
            if parameter.grad is None:
                continue
            gradient = parameter.grad
            whole = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
            for index, value in enumerate(whole.detach().to(torch.float64).flatten().tolist()):
                metrics[0].points.append((GRADIENT + name, index, {}, value))

    def watched_step(training: Any, step: int) -> Any:
        def watched_clip(*arguments: Any, **named: Any) -> Any:
            if not told:
                told_clip(training)
            return plain(*arguments, **named)

        loop.clip = watched_clip
        return take_step(training, step)

    def watched_loop(training: Any, recorder: Any, *rest: Any) -> Any:
        metrics.append(recorder)
        return run_loop(training, recorder, *rest)

    loop.take_step = watched_step
    loop.run_loop = watched_loop
    from workers.training import main

    main.run_loop = watched_loop

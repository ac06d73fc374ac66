"""Is it the same mathematics? Losses of every step and gradients of the first, against one process alone."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
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


class Measured(NamedTuple):
    """A line of the table that `make parity` ends with; None where there is nothing to say."""

    strategy: str
    world: int
    loss: float | None
    gradient: float | None
    limit: float | None
    note: str = ""


measured: list[Measured] = []  # in this process, in the order of the tests


def check_parity(
    world: int, parallel: dict[str, Any], *, limit: float, gradient_limit: float | None = None, **changes: Any
) -> Distance:
    """Assert that losses differ by at most ``limit`` and gradients by ``gradient_limit`` (else ``limit``), relative."""
    found = distance(world, parallel, **changes)
    measured[-1] = measured[-1]._replace(limit=limit, note="")  # what is set up here leaves nothing out
    assert found.loss <= limit, found
    assert found.validation <= limit, found
    assert found.gradient <= (limit if gradient_limit is None else gradient_limit), found
    return found


def distance(world: int, parallel: dict[str, Any], *, setup: Callable[[], None] = nothing, **changes: Any) -> Distance:
    """Train on ``world`` ranks in that way and alone, and return how far apart they are.

    ``changes`` go to both specs, but for ``apart``, which goes to the spread one alone. ``setup`` runs in each of the
    spread ranks: the way to leave something out.
    """
    apart = {"parallel": parallel, **changes.pop("apart", {})}
    changes = {"steps": STEPS, **({} if "task" in changes else {"model": SHAPE}), **changes}
    alone = _alone(json.dumps(changes, sort_keys=True))
    spread = train_on(world, tiny_spec(world=world, **{**changes, **apart}), setup=functools.partial(_watched, setup))
    points = [point for rank in spread for point in rank]
    found = Distance(
        _largest(series(alone, "train/loss"), series(points, "train/loss")),
        _largest(series(alone, "val/loss"), series(points, "val/loss")),
        _gradient_distance(gradients(alone), list(map(gradients, spread))),
    )
    note = "" if setup is nothing else "red: " + _name(setup)
    measured.append(Measured(strategy_name({**changes, **apart}), world, found.loss, found.gradient, None, note))
    return found


def strategy_name(changes: dict[str, Any]) -> str:
    """Return what of a spec's changes is a way to train: ``"shard 2, pipeline.stages 2, precision bf16"``."""
    plain = ("steps", "model", "batch_size", "seed", "task")
    told = {name: value for name, value in changes.items() if name not in plain}
    parallel = told.pop("parallel")
    words = [f"{path} {value}" for path, value in _flat({**parallel, **told})]
    recipe = [what_is_trained(task)] if (task := changes.get("task")) else []
    recipe += ["grouped queries"] if "kv_heads" in changes.get("model", {}) else []
    return ", ".join(
        recipe + (words if {"data", "shard", "tensor", "pipeline"} & parallel.keys() else ["data", *words])
    )


def what_is_trained(task: dict[str, Any]) -> str:
    """Return the recipe, or of images the kind of model."""
    return str(task.get("model", {}).get("architecture", task["recipe"]))


def _flat(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _name(setup: Callable[[], None]) -> str:
    function = setup.func if isinstance(setup, functools.partial) else setup
    return function.__name__.strip("_").replace("_", " ")


@functools.cache
def _alone(changes: str) -> list[Point]:
    (points,) = train_on(1, tiny_spec(**json.loads(changes)), setup=functools.partial(_watched, nothing))
    return points


def _largest(one: dict[int | None, float], other: dict[int | None, float]) -> float:
    assert one.keys() == other.keys(), (sorted(map(str, one)), sorted(map(str, other)))
    # Not max(), which passes over NaN where it does not come first.
    return float(np.max([abs(one[step] - other[step]) / abs(one[step]) for step in one]))


def gradients(points: list[Point]) -> dict[str, np.ndarray]:
    """Return the whole gradients of the first step by parameter, as a rank has told them."""
    found: dict[str, dict[int, float]] = {}
    for name, index, _, value in points:
        if name.startswith(GRADIENT) and index is not None:
            found.setdefault(name.removeprefix(GRADIENT), {})[index] = value
    return {name: np.array([numbers[index] for index in sorted(numbers)]) for name, numbers in found.items()}


def _gradient_distance(one: dict[str, np.ndarray], ranks: list[dict[str, np.ndarray]]) -> float:
    """Return the largest distance of any rank's gradients: all of them are to be those of the whole batch."""
    assert one.keys() == set().union(*ranks), one.keys() ^ set().union(*ranks)
    # A gradient that is zero by the way the weights start has no scale of its own.
    least = 1e-3 * max(float(np.linalg.norm(gradient)) for gradient in one.values())
    return float(
        np.max(
            [
                np.linalg.norm(one[name] - gradient) / max(float(np.linalg.norm(one[name])), least)
                for rank in ranks
                for name, gradient in rank.items()
            ]
        )
    )


def _watched(setup: Callable[[], None]) -> None:
    """In a rank: tell the whole gradients of the first step, before they are clipped."""
    import torch
    from torch.distributed.tensor import DTensor

    from workers.training import loop
    from workers.training.recipes import gpt, resnet, tabular, vit

    def initialize_all(initialize: Callable[..., None], model: Any, *arguments: Any, **named: Any) -> None:
        """What starts at zero would give most parameters a first gradient of zero, which shows nothing."""
        initialize(model, *arguments, **named)
        with torch.no_grad():
            for parameter in model.parameters():
                if not parameter.any():
                    parameter.normal_(std=0.1)

    modules: list[Any] = [gpt, tabular, resnet, vit]
    for module in modules:
        module.initialize = functools.partial(initialize_all, module.initialize)
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

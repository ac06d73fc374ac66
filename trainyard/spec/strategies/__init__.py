"""The ways to train in parallel, in one table: its order is the order in which ``build()`` puts a training together.

Each strategy says here, without torch, what it refuses, what it goes together with and what it costs. The spec's rules,
the planner, the drawing of the mesh and the tables of docs/parallel.md read it from here; the half that applies it to a
model has the same name in ``workers/training/strategies/``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.spec.strategies.agreements import DiLoCo, EveryStep, LocalSGD, ParameterServer
from trainyard.spec.strategies.compression import Halved, PowerSGD, TopK
from trainyard.spec.strategies.context import Context
from trainyard.spec.strategies.data import DataParallel, Shard
from trainyard.spec.strategies.pipeline import Pipeline
from trainyard.spec.strategies.strategy import Axis, Limit, Place, Strategy
from trainyard.spec.strategies.tensor import Tensor
from trainyard.spec.strategies.within_blocks import ActivationCheckpointing, Balance, Compilation

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.mesh import Mesh

__all__ = ["AXES", "STRATEGIES", "Axis", "Limit", "Place", "Strategy", "at_place", "of_axis", "used"]

STRATEGIES: tuple[Strategy, ...] = (
    Pipeline(), Context(), Tensor(), ActivationCheckpointing(), Compilation(), Shard(), Halved(), PowerSGD(), TopK(),
    DataParallel(), EveryStep(), LocalSGD(), DiLoCo(), ParameterServer(), Balance(),
)  # fmt: skip
AXES: tuple[Axis, ...] = tuple(
    sorted((strategy.axis for strategy in STRATEGIES if strategy.axis is not None), key=lambda axis: axis.order)
)


def at_place(place: Place) -> list[Strategy]:
    """Return the strategies that ``build()`` applies then, in its order."""
    return [strategy for strategy in STRATEGIES if strategy.place is place]


def of_axis(name: str) -> Strategy:
    """Return the strategy whose degree the axis is."""
    return next(strategy for strategy in STRATEGIES if strategy.axis is not None and strategy.axis.name == name)


def used(spec: RecipeSpec, mesh: Mesh) -> list[Strategy]:
    """Return the strategies that ``spec`` asks for on ``mesh``."""
    return [strategy for strategy in STRATEGIES if strategy.is_used(spec, mesh)]

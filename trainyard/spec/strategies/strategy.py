"""Description of every way to train in parallel, without torch. Its other half, which applies it to a model, is in
``workers/training/strategies/``; ``workers/training/build.py`` names both together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

from trainyard.spec.problems import Problem
from trainyard.spec.strategies.messages import Message

if TYPE_CHECKING:  # at run time they import this package
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs import Layout, Model, Section, Stage
    from trainyard.spec.strategies.mesh import Mesh


class Place(Enum):
    """Moments at which ``build()`` applies a strategy, in this order; within a place, in the order of the table."""

    SPLIT = "before the model is on its device"
    CUT = "within each part of the model, before the optimizer"
    REDUCE = "over the parts, when all cuts are made"
    AGREE = "behind the optimizer"


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the mesh. ``noun`` is what one rank on it holds, such as a copy."""

    name: str
    path: str  # the field of the spec that holds its degree
    noun: str
    alone: str  # what a mesh of this axis only is called
    clause: str  # about the model: what the axis adds to a product of several
    order: int  # in the mesh: the ranks of the highest are neighbours
    cuts_batch: bool = False  # its ranks compute other rows of the batch
    has_copies: bool = False  # its ranks hold the same weights, and their gradients are averaged
    shares_rows: bool = False  # its ranks compute the loss of the same rows together
    is_rare: bool = False  # it is named only where it is used


@dataclass(frozen=True, slots=True)
class Limit:
    """Settings that a setting goes together with. A setting without a Limit goes with every product of the axes."""

    axes: frozenset[str]  # that may be above 1
    why: str
    least_data: int = 1
    only_every_step: bool = False
    only_uncompressed: bool = False


class Strategy:
    """One way to train in parallel. A strategy overrides what it has; the rest costs nothing and refuses nothing."""

    name: ClassVar[str]
    place: ClassVar[Place]
    reason: ClassVar[str]  # for its place in the order of composition
    axis: ClassVar[Axis | None] = None  # of a strategy with a degree
    path: ClassVar[str] = ""  # of a strategy that a value chooses: the field…
    values: ClassVar[tuple[str, ...]] = ()  # …and the values
    limit: ClassVar[Limit | None] = None
    keeps_unsent: ClassVar[bool] = False  # on each rank, which another number of ranks cannot take over
    has_own_optimizers: ClassVar[bool] = False  # the optimizer's state differs between copies of the model

    def is_used(self, spec: RecipeSpec, mesh: Mesh) -> bool:
        """Return whether ``spec`` asks for this strategy on ``mesh``."""
        if self.axis is not None:
            return mesh.degree(self.axis.name) > 1
        return chosen(spec, self.path) in self.values

    # Refusals

    def problems(self, spec: RecipeSpec) -> Iterator[Problem]:
        """Yield what it cannot do with this model and these settings, whatever the number of ranks."""
        yield from ()

    def product_problems(self, spec: RecipeSpec) -> Iterator[Problem]:
        """Yield what it cannot do on this mesh. Called where the degrees multiply to the world size."""
        yield from ()

    # Words on the drawing of the mesh

    def sentence(self, spec: RecipeSpec, degree: int) -> str:
        """Return what the ``degree`` ranks of its axis do, in a sentence."""
        return ""

    def clause(self, spec: RecipeSpec, degree: int) -> str:
        """Return a sentence about the copies of the model, where this strategy changes how they agree; else nothing."""
        return ""

    # Costs. All are bytes of one rank, but for ``calls`` and ``bubble``.

    def narrowed(self, model: Model, mesh: Mesh) -> Model:
        """Return the model as one rank computes it: the same where the strategy does not cut what flows through it."""
        return model

    def section(self, section: Section, model: Model, layout: Layout) -> Section:
        """Return what a section of the narrowed model costs with what the strategy does in it."""
        return section

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        """Return what a rank of ``stage`` exchanges in a step."""
        return []

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        """Return the copies of weights and gradients that it keeps all the time."""
        return 0.0

    def gathered_bytes(self, spec: RecipeSpec, layout: Layout, weights: Sequence[float]) -> float:
        """Return the weights of others, of these bytes by section, that a rank holds at once."""
        return 0.0

    def buffer_bytes(self, layout: Layout, stage: Stage) -> float:
        """Return the buffers for what flows between ranks."""
        return 0.0

    def calls(self, layout: Layout, stage: Stage) -> float:
        """Return what Python does for it in a pass, in calls of an operator."""
        return 0.0

    def bubble(self, layout: Layout) -> float:
        """Return the share of a step's time that a rank waits for others to compute."""
        return 0.0


def chosen(spec: RecipeSpec, path: str) -> str:
    """Return the value of a field, as the forms write it."""
    value: object = reduce(getattr, path.split("."), spec)
    return str(value).lower() if isinstance(value, bool) else str(value)


def some(numbers: list[int]) -> str:
    """Return the first numbers of a list in words."""
    return ", ".join(map(str, numbers[:12])) + (", …" if len(numbers) > 12 else "")

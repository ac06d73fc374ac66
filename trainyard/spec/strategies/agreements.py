"""Ways to agree on weights more seldom than in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.spec.sections.parallel import KIND
from trainyard.spec.strategies.messages import Message
from trainyard.spec.strategies.strategy import Limit, Place, Strategy

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs import Layout, Stage

DATA = frozenset({"data"})


class Agreement(Strategy):
    place = Place.AGREE
    reason = "last: it calls the optimizer, and sets numbers in it"
    path = KIND


class EveryStep(Agreement):
    """Gradients arrive reduced, so that weights stay equal by themselves."""

    name = "every_step"
    values = ("every-step",)


class LocalSGD(Agreement):
    name = "local_sgd"
    values = ("local-sgd",)
    limit = Limit(DATA, "each rank trains a whole model of its own for a while", least_data=2)
    has_own_optimizers = True

    def clause(self, spec: RecipeSpec, degree: int) -> str:
        return f"{degree:,} copies of the model train alone and average their weights {how_often(spec)}."

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        every_steps = spec.parallel.synchronization.every_steps
        return [Message("all-reduce", layout.mesh.data, whole_bytes(layout, stage) / every_steps, 1 / every_steps)]

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        return whole_bytes(layout, stage)  # the average


class DiLoCo(LocalSGD):
    name = "diloco"
    values = ("diloco",)

    def clause(self, spec: RecipeSpec, degree: int) -> str:
        often = how_often(spec)
        return f"{degree:,} copies of the model train alone; {often} one outer step takes the average of their changes."

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        return 3 * whole_bytes(layout, stage)  # the average, the outer weights and their velocity


class ParameterServer(Agreement):
    name = "parameter_server"
    values = ("parameter-server",)
    limit = Limit(DATA, "each rank sends rank 0 the gradients of a whole model", least_data=2)

    def clause(self, spec: RecipeSpec, degree: int) -> str:
        words = f"at most {spec.parallel.synchronization.max_staleness:,} steps apart."
        return f"{degree:,} copies of the model send their gradients to rank 0 and fetch its weights, {words}"

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        others = layout.mesh.data - 1  # up and down; rank 0 serves each of the others
        return [Message("send-receive", layout.mesh.data, whole_bytes(layout, stage) * others, 2.0 * others)]

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        # Rank 0: its own, the server's weights and gradient, a message for each of the others.
        number = 3 + layout.mesh.world_size - 1 if rank == 0 else 2
        return number * whole_bytes(layout, stage)


def whole_bytes(layout: Layout, stage: Stage) -> float:
    return sum(stage.weights(layout))


def how_often(spec: RecipeSpec) -> str:
    every_steps = spec.parallel.synchronization.every_steps
    return "every step" if every_steps == 1 else f"every {every_steps:,} steps"

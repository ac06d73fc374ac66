"""Population based training of a small language model, beside the same members with the rate that they began with.

The trainings happen here, without a run for each; who is replaced by whom is decided by the product's own rules. Both
spend the same steps.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from runs.sweeps.populations.deciding import Population, verdicts
from runs.sweeps.populations.lineage import Member
from runs.sweeps.search.plain import SamplerQuestion
from runs.sweeps.search.suggest import suggest
from trainyard.spec.sweeps import SweepSpec, parse_sweep

STEPS, INTERVAL, SIZE, BATCH = 500, 50, 4, 16
RATE, DECAY = "train.learning_rate", "train.weight_decay"
BASE = {
    "name": "member",
    "task": {"recipe": "language-model", "model": {"layers": 2, "width": 64, "heads": 4, "context": 64}},
}


def spec_of(seed: int) -> SweepSpec:
    return parse_sweep(
        {
            "name": "population",
            "base": BASE,
            "space": {RATE: {"low": 1e-4, "high": 1e-1, "log": True}, DECAY: {"low": 0.0, "high": 0.3}},
            "objective": {"metric": "val/loss"},
            "budget": {"trials": 1_000, "parallel": SIZE},
            "sampler": {"name": "population", "size": SIZE, "interval": INTERVAL},
            "seed": seed,
        }
    )


@cache
def _task() -> Any:
    import torch

    from trainyard.spec import RecipeSpec, parse_spec
    from workers.training.recipes import load_task

    spec = parse_spec(BASE)
    assert isinstance(spec, RecipeSpec)
    return load_task(spec.task, seed=0, device=torch.device("cpu"))


class Training:
    """One member: a model, its optimizer, and the values that it trains with."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        import torch

        from workers.training.optimizing.optimizers import make_optimizer

        torch.manual_seed(0)
        self.model = _task().make_model()
        self.optimizer = make_optimizer("adamw", [self.model], [], weight_decay=0.0)
        self.take(parameters)
        self.step = 0

    def take(self, parameters: Mapping[str, Any]) -> None:
        from workers.training.optimizing.optimizers import set_rate, set_weight_decay

        self.parameters = dict(parameters)
        set_rate(self.optimizer, self.parameters[RATE])
        set_weight_decay(self.optimizer, self.parameters[DECAY])

    def train(self, until: int) -> float:
        """Train up to the step; return the validation loss there."""
        import torch

        from workers.training.loop import clip

        task = _task()
        weights = list(self.model.parameters())
        for step in range(self.step, until):
            self.optimizer.zero_grad()
            task.loss(self.model, task.train_batch(slice(step * BATCH, (step + 1) * BATCH))).backward()
            clip(weights, 1.0, None)
            self.optimizer.step()
        self.step = until
        with torch.no_grad():
            return float(task.loss(self.model, task.validation_batch(slice(0, task.num_validation_rows))))

    def go_on_from(self, other: Training, parameters: Mapping[str, Any]) -> None:
        self.model.load_state_dict(other.model.state_dict())
        self.optimizer.load_state_dict(copy.deepcopy(other.optimizer.state_dict()))
        self.take(parameters)


@dataclass
class Lived:
    """A member with what is known of it. A successor has a number of its own and the training of its place."""

    number: int
    training: Training
    start: int = 0
    scores: dict[int, float] = field(default_factory=dict)

    def as_member(self) -> Member:
        return Member(
            number=self.number,
            parameters=dict(self.training.parameters),
            scores=dict(self.scores),
            checkpoints=frozenset(self.scores),
            start=self.start,
            judged=max((step for step in self.scores if step < self.training.step), default=0),
        )


def first_parameters(spec: SweepSpec) -> list[dict[str, Any]]:
    found = [suggest(SamplerQuestion(spec, number, number, [], {})) for number in range(SIZE)]
    return [one.parameters for one in found if one is not None]


def constant(seed: int) -> float:
    """Return the loss of the best member that keeps its values."""
    return min(Training(parameters).train(STEPS) for parameters in first_parameters(spec_of(seed)))


def population(seed: int) -> float:
    """Return the loss of the best member at the end."""
    spec = spec_of(seed)
    living = [Lived(number, Training(one)) for number, one in enumerate(first_parameters(spec))]
    num_made = len(living)
    for boundary in range(INTERVAL, STEPS + 1, INTERVAL):
        for one in living:
            one.scores[boundary] = -one.training.train(boundary)
        members: Sequence[Member] = [one.as_member() for one in living]
        by_number = {one.number: one for one in living}
        for verdict in verdicts(Population(spec.sampler, spec.space, members, seed, STEPS), room=SIZE):
            if verdict.successor is None or verdict.successor.parent is None:
                continue
            place = by_number[verdict.number]
            place.training.go_on_from(by_number[verdict.successor.parent].training, verdict.successor.parameters)
            living[living.index(place)] = Lived(num_made, place.training, start=boundary)
            num_made += 1
    return min(-one.scores[STEPS] for one in living)

"""A table of real training curves over the digits, and searches over it by the product's own sampler and pruner.

Ten searches of a hundred trials each would be a thousand trainings. So each point of a grid of six fields is trained
once, and its validation curve is kept; a search that proposes the point gets that curve. What a search spends are the
steps that it would have trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.sweeps.pruning import Report, judge
from runs.sweeps.search.suggest import suggest
from runs.sweeps.search.trials import PastTrial, Question
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec, parse_sweep

STEPS, EVERY = 120, 10
WITHIN = 0.3  # points of accuracy
FIELDS: Mapping[str, Sequence[Any]] = {
    "lr": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    "width": (4, 16, 64),
    "batch": (16, 64),
    "decay": (0.0, 0.01),
    "momentum": (0.0, 0.9),
    "activation": ("relu", "sigmoid"),
}

Key = tuple[Any, ...]
Curve = Sequence[Report]


def points(share: float) -> list[Key]:
    """Return the points of the grid; of less than the whole work, with fewer learning rates."""
    rates = FIELDS["lr"][:: 1 if share == 1 else 2]
    return list(itertools.product(rates, *(FIELDS[name] for name in list(FIELDS)[1:])))


def curve(key: Key) -> list[Report]:
    """Train one point, and return its accuracy in percent on the rows that were held back, every so many steps."""
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    rate, width, batch, decay, momentum, activation = key
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    data = load_digits()
    order = torch.randperm(len(data.target), generator=generator)
    inputs, targets = torch.tensor(data.data, dtype=torch.float32)[order] / 16.0, torch.tensor(data.target)[order]
    held = len(targets) // 3
    middle = nn.ReLU() if activation == "relu" else nn.Sigmoid()
    model = nn.Sequential(nn.Linear(64, width), middle, nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, weight_decay=decay)
    found = []
    for step in range(1, STEPS + 1):
        rows = held + torch.randint(len(targets) - held, (batch,), generator=generator)
        loss = nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % EVERY == 0:
            with torch.no_grad():
                right = (model(inputs[:held]).argmax(1) == targets[:held]).float().mean().item()
            found.append(Report(step, 100 * right))
    return found


@dataclass
class Search:
    """One search over the table."""

    spec: SweepSpec
    table: Mapping[Key, Curve]
    trials: list[PastTrial] = field(default_factory=list)
    rungs: list[dict[int, float]] = field(default_factory=list)

    def steps_until(self, goal: float) -> int:
        """Return the steps spent until a trial that completed is as good as ``goal``."""
        spent = 0
        for number in range(self.spec.budget.trials):
            suggestion = suggest(Question(self.spec, number, number, self.trials, {}))
            assert suggestion is not None, "no grid"
            spent += self._train(number, suggestion.parameters)
            last = self.trials[-1]
            if last.state == TrialState.COMPLETE and last.values[0] >= goal:
                break
        return spent

    def _train(self, number: int, parameters: Mapping[str, Any]) -> int:
        curve = self.table[tuple(parameters[f"task.arguments.--{name}"] for name in FIELDS)]
        passed: dict[int, float] = {}
        state, last = TrialState.COMPLETE, curve[-1]
        for place in range(1, len(curve) + 1):
            pruner, objective = self.spec.pruner, self.spec.objectives[0]
            verdict = judge(pruner, objective, number, curve[:place], passed, self.rungs)
            passed = verdict.rungs
            if verdict.pruned_at is not None and place < len(curve):
                state, last = TrialState.PRUNED, curve[place - 1]
                break
        self.rungs.append(passed)
        self.trials.append(PastTrial(number, state, parameters, (last.value,), last.step))
        return last.step


def searches(table: Mapping[Key, Curve], seeds: Sequence[int], sampler: str, pruner: str) -> Iterator[int]:
    """Yield for each seed the steps until within WITHIN points of the best of the table."""
    goal = max(one[-1].value for one in table.values()) - WITHIN
    rates = sorted({key[0] for key in table})
    values = {**FIELDS, "lr": rates}
    for seed in seeds:
        spec = parse_sweep(
            {
                "name": "curves",
                "base": {"name": "b", "task": {"script": "t.py"}},
                "space": {f"task.arguments.--{name}": {"values": list(values[name])} for name in FIELDS},
                "objective": {"metric": "accuracy", "direction": "maximize"},
                "budget": {"trials": 4 * len(table)},
                "sampler": sampler,
                "pruner": {"name": pruner, "min": EVERY, "factor": 3} if pruner != "none" else "none",
                "seed": seed,
            }
        )
        yield Search(spec, table).steps_until(goal)

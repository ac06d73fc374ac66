"""Searches over trainings on the digits, by the product's own sampler and pruner.

The trainings are of a small net and happen here, without a run for each: ten searches of sixty trials each, three ways,
would be 1,800 runs. What a search spends are the steps that it trained.

Each search begins with as many steps. Those that are not near the best that any of them knows go on, until they are or
have spent the most that is allowed; where one of them finds better, it counts for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from runs.sweeps.pruning import Report, judge
from runs.sweeps.search.plain import PastTrial, SamplerQuestion
from runs.sweeps.search.suggest import suggest
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec, parse_sweep

STEPS, EVERY = 180, 20
WITHIN = 0.3  # points of accuracy
SPACE: Mapping[str, Any] = {
    "lr": {"low": 1e-4, "high": 1.0, "log": True},
    "width": {"low": 4, "high": 128, "int": True, "log": True},
    "batch": {"low": 8, "high": 128, "int": True, "log": True},
    "decay": {"low": 1e-6, "high": 0.1, "log": True},
    "momentum": {"low": 0.0, "high": 0.99},
    "activation": {"values": ["relu", "sigmoid"]},
}


@cache
def _digits() -> tuple[Any, Any]:
    import torch
    from sklearn.datasets import load_digits

    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    return torch.tensor(data.data, dtype=torch.float32)[order] / 16.0, torch.tensor(data.target)[order]


class Training:
    """One trial, trained as far as it is asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        import torch
        from torch import nn

        torch.manual_seed(0)
        middle = nn.ReLU() if values["activation"] == "relu" else nn.Sigmoid()
        self._model = nn.Sequential(nn.Linear(64, values["width"]), middle, nn.Linear(values["width"], 10))
        self._optimizer = torch.optim.SGD(
            self._model.parameters(), lr=values["lr"], momentum=values["momentum"], weight_decay=values["decay"]
        )
        self._generator = torch.Generator().manual_seed(0)
        self._batch = int(values["batch"])
        self.step = 0

    def train(self, steps: int) -> Report:
        """Train so many steps; return the accuracy in percent on the half of the rows that is held back."""
        import torch
        from torch import nn

        inputs, targets = _digits()
        held = len(targets) // 2
        for _ in range(steps):
            rows = held + torch.randint(len(targets) - held, (self._batch,), generator=self._generator)
            loss = nn.functional.cross_entropy(self._model(inputs[rows]), targets[rows])
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        self.step += steps
        with torch.no_grad():
            right = (self._model(inputs[:held]).argmax(1) == targets[:held]).float().mean().item()
        return Report(self.step, 100 * right)


@dataclass
class Search:
    """One search; ``found`` has the steps spent by the end of each trial that completed, and its accuracy."""

    spec: SweepSpec
    trials: list[PastTrial] = field(default_factory=list)
    rungs: list[dict[int, float]] = field(default_factory=list)
    found: list[tuple[int, float]] = field(default_factory=list)
    spent: int = 0

    def go_on_to(self, steps: int) -> None:
        """Begin trials until so many steps are spent."""
        while self.spent < steps:
            number = len(self.trials)
            suggestion = suggest(SamplerQuestion(self.spec, number, number, self.trials, {}))
            assert suggestion is not None, "no grid"
            self._train(number, suggestion.parameters)

    def _train(self, number: int, parameters: Mapping[str, Any]) -> None:
        training = Training({name: parameters[f"task.arguments.--{name}"] for name in SPACE})
        passed: dict[int, float] = {}
        curve: list[Report] = []
        state = TrialState.COMPLETE
        while training.step < STEPS:
            curve.append(training.train(EVERY))
            if training.step == STEPS:
                break  # no rung is at the last step
            verdict = judge(self.spec.pruner, self.spec.objectives[0], number, curve, passed, self.rungs)
            passed = verdict.rungs
            if verdict.pruned_at is not None:
                state = TrialState.PRUNED
                break
        last = curve[-1]
        self.spent += last.step
        self.rungs.append(passed)
        self.trials.append(PastTrial(number, state, dict(parameters), (last.value,), last.step))
        if state == TrialState.COMPLETE:
            self.found.append((self.spent, last.value))

    @property
    def best(self) -> float:
        return max((value for _, value in self.found), default=0.0)

    def steps_until(self, goal: float) -> int:
        """Return the steps spent until a trial was as good; where none was, all of them: it took at least as many."""
        return next((spent for spent, value in self.found if value >= goal), self.spent)


def search_until_near(searches: Sequence[Search], least: int, most: int) -> float:
    """Have each search spend ``least`` steps, and on, until it is near the best known or has spent ``most``. Return the
    accuracy that is near enough."""
    for one in searches:
        one.go_on_to(least)
    while True:
        goal = max(one.best for one in searches) - WITHIN
        far = [one for one in searches if one.best < goal and one.spent < most]
        if not far:
            return goal
        for one in far:
            one.go_on_to(min(most, one.spent + STEPS))


def searches(seeds: Sequence[int], sampler: str, pruner: str) -> list[Search]:
    """Return a search for each seed, which has not begun."""
    found = []
    for seed in seeds:
        spec = parse_sweep(
            {
                "name": "curves",
                "base": {"name": "b", "task": {"script": "t.py"}},
                "space": {f"task.arguments.--{name}": one for name, one in SPACE.items()},
                "objective": {"metric": "accuracy", "direction": "maximize"},
                "budget": {"trials": 10_000},
                "sampler": sampler,
                "pruner": {"name": pruner, "min": EVERY, "factor": 3} if pruner != "none" else "none",
                "seed": seed,
            }
        )
        found.append(Search(spec))
    return found

"""Shares of the batch by speed: the throughput of two ranks of which one is half as fast, with and without.

The slow rank sleeps before each step for as long as its passes take, so that it is half as fast at any number of rows.
Two ranks of speeds 1 and 1/2 can reach at best three quarters of what two of speed 1 reach. A second row has a tiny
model whose ranks sleep for each of their rows, the slow one twice as long: their speeds are exact on a busy machine.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import goals
from benchmarks.ranks import gpt_spec, on_ranks
from benchmarks.table import Row, middle, scaled
from benchmarks.training import prepared
from trainyard.contract.base import JsonObject
from trainyard.spec import RecipeSpec
from workers.training import group as process_group
from workers.training.build import Training
from workers.training.group import RankPlace
from workers.training.loop import StepResult, settle, take_step
from workers.training.passes import Passed

WORLD = 2
SLOW_RANK = 1
IDEAL = 0.75  # of the throughput of two fast ranks
ROUNDS = 4
BLOCK = 20  # steps
SETTLING_STEPS = 45  # in which the shares find their place
KINDS = ("fast", "slow", "balanced")
ROW_S = 0.005  # that a rank sleeps for each row
TINY: dict[str, Any] = {"model": {"layers": 1, "width": 32, "heads": 2, "context": 32}}
MODELS: dict[str, tuple[dict[str, Any], float]] = {
    "hello-gpt": ({}, 0.0),
    f"ranks that sleep {1000 * ROW_S:g} ms a row": (TINY, ROW_S),
}


class Slowness:
    """Takes the place of the passes' ``train``: where ``is_on``, it sleeps as long as the rows will take to compute;
    where rows take ``sleep_s`` each, that is slept by everyone, and twice where ``is_on``."""

    def __init__(self, training: Training, sleep_s: float) -> None:
        self.is_on = False
        self._sleep_s = sleep_s
        self._train = training.passes.train
        self._training = training
        self._row_s = 0.0
        training.passes.train = self.train  # type: ignore[method-assign]

    def train(self, step: int) -> Passed:
        row_s = self._sleep_s * (1 + self.is_on) if self._sleep_s else self._row_s * self.is_on
        time.sleep(row_s * self._training.share.micro)
        return self._train(step)

    def learn(self, result: StepResult) -> None:
        """See how long a row takes to compute, from the step before."""
        phases = result.measured.phases
        self._row_s = (phases["forward"] + phases["backward"]) / self._training.share.micro


def rows() -> list[Row]:
    return [row_of(name, changes, sleep_s) for name, (changes, sleep_s) in MODELS.items()]


def row_of(name: str, changes: JsonObject, sleep_s: float) -> Row:
    spec = gpt_spec(WORLD, parallel={"balance": "speed"}, **changes)
    times, shares = on_ranks(WORLD, rank_times, spec, scaled(ROUNDS, least=2), sleep_s)[0]
    fast_s, slow_s, balanced_s = (middle(one) for one in times)
    ideal_s = fast_s / IDEAL
    batch_size = spec.train.batch_size
    return Row(
        f"samples/s, {WORLD} ranks of which one is half as fast: {name}", batch_size / balanced_s, "samples/s",
        batch_size / ideal_s, "the ideal for the sum of the speeds", is_less_better=False, goal=goals.BALANCE,
        others={"equal shares": batch_size / slow_s, "both fast": batch_size / fast_s},
        note=f"shares {shares[0]} and {shares[1]} of {batch_size} rows",
    )  # fmt: skip


def rank_times(
    place: RankPlace, spec: RecipeSpec, num_rounds: int, sleep_s: float
) -> tuple[list[list[float]], list[int]]:
    """In a rank: return the seconds of the steps of each of KINDS, which take turns, and the shares in the end."""
    process_group.join(place, torch.device("cpu"))
    training = prepared(spec, place)
    settle(training)
    balance, equal = training.balance, training.share
    assert balance is not None
    slowness = Slowness(training, sleep_s)
    is_slow = place.rank == SLOW_RANK
    step = 0

    def take(num_steps: int, *, is_balancing: bool) -> list[float]:
        nonlocal step
        seconds = []
        for _ in range(num_steps):
            step += 1
            result = take_step(training, step)
            slowness.learn(result)
            share = training.balance.after_step(result.measured.phases) if is_balancing and training.balance else None
            if share is not None:
                training.take_share(share)
            seconds.append(result.step_time_s)
        return seconds

    take(5, is_balancing=False)
    slowness.is_on = is_slow
    take(scaled(SETTLING_STEPS, least=25), is_balancing=True)
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(num_rounds):
        for kind in KINDS:
            dist.barrier()
            slowness.is_on = is_slow and kind != "fast"
            training.take_share(balance.share if kind == "balanced" else equal)
            take(2, is_balancing=False)  # what belongs to the block before is over
            times[kind] += take(scaled(BLOCK, least=5), is_balancing=kind == "balanced")
    return list(times.values()), balance.state()

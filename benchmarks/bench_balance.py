"""Shares of the batch by speed: the throughput of two ranks of which one is half as fast, with and without.

The slow rank sleeps before each step for as long as its passes take, so that it is half as fast at any number of rows.
Two ranks of speeds 1 and 1/2 can reach at best three quarters of what two of speed 1 reach.
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
from workers.training import process_group
from workers.training.build import Training
from workers.training.loop import StepResult, rebalance, settle, take_step
from workers.training.passes import Passed
from workers.training.place import Place

WORLD = 2
SLOW_RANK = 1
IDEAL = 0.75  # of the throughput of two fast ranks
ROUNDS = 4
BLOCK = 20  # steps
SETTLING_STEPS = 45  # in which the shares find their place
KINDS = ("fast", "slow", "balanced")


class Slowness:
    """Takes the place of the passes' ``train``: where ``is_on``, it sleeps as long as the rows will take to compute."""

    def __init__(self, training: Training) -> None:
        self.is_on = False
        self._train = training.passes.train
        self._training = training
        self._row_s = 0.0
        training.passes.train = self.train  # type: ignore[method-assign]

    def train(self, step: int) -> Passed:
        if self.is_on:
            time.sleep(self._row_s * self._training.share.micro)
        return self._train(step)

    def learn(self, result: StepResult) -> None:
        """See how long a row takes to compute, from the step before."""
        phases = result.measured.phases
        self._row_s = (phases["forward"] + phases["backward"]) / self._training.share.micro


def rows() -> list[Row]:
    times = on_ranks(WORLD, rank_times, gpt_spec(WORLD, parallel={"balance": "speed"}), scaled(ROUNDS, least=2))
    fast_s, slow_s, balanced_s = (middle(one) for one in times[0][0])
    shares = times[0][1]
    ideal_s = fast_s / IDEAL
    batch_size = gpt_spec(WORLD)["train"]["batch_size"]
    what = f"samples/s of hello-gpt, {WORLD} ranks of which one is half as fast"
    return [
        Row(what, batch_size / balanced_s, "samples/s", batch_size / ideal_s, "the ideal for the sum of the speeds",
            is_less_better=False, goal=goals.BALANCE,
            others={"equal shares": batch_size / slow_s, "both fast": batch_size / fast_s},
            note=f"shares {shares[0]} and {shares[1]} of {batch_size} rows"),
    ]  # fmt: skip


def rank_times(place: Place, spec: dict[str, Any], num_rounds: int) -> tuple[list[list[float]], list[int]]:
    """In a rank: return the seconds of the steps of each of KINDS, which take turns, and the shares in the end."""
    process_group.join(place, torch.device("cpu"))
    training = prepared(spec, place)
    settle(training)
    balance, equal = training.balance, training.share
    assert balance is not None
    slowness = Slowness(training)
    is_slow = place.rank == SLOW_RANK
    step = 0

    def take(num_steps: int, *, is_balancing: bool) -> list[float]:
        nonlocal step
        seconds = []
        for _ in range(num_steps):
            step += 1
            result = take_step(training, step)
            slowness.learn(result)
            if is_balancing:
                rebalance(training, result)
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

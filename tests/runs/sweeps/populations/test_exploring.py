"""Other values of hyperparameters: by a factor, drawn anew, and by the bandit of PB2."""

from __future__ import annotations

import numpy as np
import pytest

from runs.sweeps.populations.deciding import bandit, explored, fitted, intervals, moved
from runs.sweeps.populations.lineage import Member, Successor
from trainyard.spec.sweeps.models import Dimension, Sampler

RATE = Dimension(low=1e-4, high=1e-1, log=True)
BATCH = Dimension.model_validate({"low": 8, "high": 64, "int": True, "step": 8})
CHOICE = Dimension(values=[0.0, 0.1, 0.2])
SPACE = {
    "train.learning_rate": RATE,
    "train.batch_size": BATCH,
    "train.weight_decay": CHOICE,
    "task.model.layers": CHOICE,
}
PARAMETERS = {"train.learning_rate": 0.01, "train.batch_size": 32, "train.weight_decay": 0.1, "task.model.layers": 0.1}


def test_a_value_is_multiplied_and_stays_in_its_range() -> None:
    assert moved(RATE, 0.01, [0.8, 1.25], 0.0) == pytest.approx(0.008)
    assert moved(RATE, 0.01, [0.8, 1.25], 0.99) == pytest.approx(0.0125)
    assert moved(RATE, 0.09, [1.25], 0.5) == 0.1
    assert moved(BATCH, 32, [1.25], 0.5) == 40 and isinstance(moved(BATCH, 32, [1.25], 0.5), int)
    assert fitted(BATCH, 1000.0) == 64
    assert (moved(CHOICE, 0.1, [], 0.0), moved(CHOICE, 0.1, [], 0.9), moved(CHOICE, 0.2, [], 0.9)) == (0.0, 0.2, 0.2)


def test_what_cannot_change_in_mid_training_stays() -> None:
    for explore in ("perturb", "resample"):
        settings = Sampler(name="population", explore=explore, resample=0.5)
        for seed in range(20):
            found = explored(settings, SPACE, PARAMETERS, np.random.default_rng(seed))
            assert found["task.model.layers"] == 0.1
            assert found.keys() == PARAMETERS.keys()
            assert found["train.batch_size"] % 8 == 0 and 8 <= found["train.batch_size"] <= 64


def peaked(number: int, rate: float) -> Member:
    """A member whose score rises the more the nearer its learning rate is to 0.01."""
    gain = 1.0 - abs(np.log10(rate) + 2.0)
    scores = {10 * place: gain * place for place in range(1, 5)}
    return Member(number, {"train.learning_rate": rate}, scores, frozenset(scores))


def test_the_bandit_proposes_what_made_scores_rise() -> None:
    space = {"train.learning_rate": RATE}
    members = [peaked(number, rate) for number, rate in enumerate((1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1))]
    settings = Sampler(name="population", interval=10, explore="pb2")
    found = [
        bandit(settings, space, members, members[1], 40, (), np.random.default_rng(seed))["train.learning_rate"]
        for seed in range(5)
    ]
    assert all(2e-3 < rate < 5e-2 for rate in found), found


def test_the_bandit_looks_elsewhere_for_a_second_successor_and_moves_where_it_knows_nothing() -> None:
    space = {"train.learning_rate": RATE}
    members = [peaked(number, rate) for number, rate in enumerate((1e-4, 1e-3, 1e-1))]
    settings = Sampler(name="population", interval=10, explore="pb2", resample=0.0)
    pairs = []
    for seed in range(5):
        first = bandit(settings, space, members, members[0], 40, (), np.random.default_rng(seed))
        made = [Successor(0, 40, first)] * 3
        pairs.append((first, bandit(settings, space, members, members[0], 40, made, np.random.default_rng(seed))))
    assert any(first != second for first, second in pairs)
    young = [Member(0, {"train.learning_rate": 0.01}, {10: 1.0})]
    rate = bandit(settings, space, young, young[0], 10, (), np.random.default_rng(0))["train.learning_rate"]
    assert rate in (0.008, 0.0125)


def test_an_interval_is_a_gain_between_two_boundaries() -> None:
    one = Member(0, {"train.learning_rate": 1e-4}, {10: 1.0, 20: 3.0, 40: 9.0, 50: float("-inf")})
    assert list(intervals([one], SPACE, ["train.learning_rate"], 10)) == [(2.0, [0.0], 1.0, 2.0)]

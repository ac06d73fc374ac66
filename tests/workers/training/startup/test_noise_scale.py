"""The batch size by the gradient noise scale."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workers.training.ranks import series, tiny_spec, train_on
from workers.training.startup.noise_scale import Norms, batch_for, noise_scale


def rounds(scale: float, count: int = 400) -> list[Norms]:
    """Norms of gradients whose noise is ``scale`` times as large as the gradient itself, drawn at random."""
    rng = np.random.default_rng(0)
    size, small, large = 200, 4, 64
    true = rng.normal(size=size) / np.sqrt(size)
    deviation = np.sqrt(scale * float(true @ true) / size)
    found = []
    for _ in range(count):
        parts = true + rng.normal(size=(large // small, size)) * deviation / np.sqrt(small)
        of_small = float((parts**2).sum(axis=1).mean())
        found.append(Norms(small, large, of_small, float((parts.mean(axis=0) ** 2).sum())))
    return found


@pytest.mark.parametrize("scale", [5.0, 50.0, 500.0])
def test_the_scale_is_found_again(scale: float) -> None:
    assert noise_scale(rounds(scale)) == pytest.approx(scale, rel=0.15)


def test_a_gradient_that_is_nothing_but_noise_has_no_scale() -> None:
    assert noise_scale([Norms(4, 64, 1.0, 1.0 / 16)]) is None
    assert noise_scale([Norms(4, 64, float("nan"), 1.0)]) is None


@pytest.mark.parametrize(("scale", "found"), [(None, 8), (1.0, 2), (9.2, 10), (1e9, 512)])
def test_the_batch_is_the_nearest_that_divides_and_grows_no_further_than_a_limit(
    scale: float | None, found: int
) -> None:
    assert batch_for(scale, 8, 2) == found


def test_two_ranks_find_a_batch_and_train_as_if_it_had_been_asked_for() -> None:
    changes = {"world": 2, "steps": 3, "validate_every_steps": 0}
    pair = train_on(2, tiny_spec(find_batch_size="noise-scale", scale_learning_rate="sqrt", **changes))
    size = int(series(pair[0], "find/batch_size")[0])
    assert size % 2 == 0 and 2 <= size <= 512
    assert series(pair[0], "find/noise_scale")
    rate = series(pair[0], "find/learning_rate")[0]
    direct = train_on(2, tiny_spec(batch_size=size, learning_rate=rate, **changes))
    assert series(pair[0], "train/loss") == series(direct[0], "train/loss")

"""Smoothing of unevenly spaced lines, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.dashboard.js.conftest import Ask

Floats = NDArray[np.float64]

SMOOTH = """({smooth}, cases) => cases.map(([x, y, kind, amount, range]) =>
    [...smooth(Float64Array.from(x), Float64Array.from(y), {kind, amount}, range ?? undefined)])"""
MEMORY = "({memory}, [amount, range]) => memory(amount, range)"


def weights(x: Floats, known: NDArray[np.bool_]) -> Floats:
    """The stretch of x that each known point stands for: half way to its neighbours, never across a gap."""
    found = np.zeros(x.size)
    for at in np.flatnonzero(known):
        sides = [x[at] - x[at - 1]] if at and known[at - 1] else []
        sides += [x[at + 1] - x[at]] if at + 1 < x.size and known[at + 1] else []
        found[at] = np.mean(sides) if sides else 0
    usual = found[found > 0][0] if (found > 0).any() else 1.0
    for at in np.flatnonzero(known):  # one that stands alone counts as much as the one before it
        usual = found[at] = found[at] or usual
    return found[known]


def smoothed(x: Floats, y: Floats, kind: str, amount: float, extent: float) -> Floats:
    known = ~np.isnan(y)
    px, py, weight = x[known], y[known], weights(x, known)
    memory = -extent / (1000 * np.log(min(np.sqrt(amount), 0.999)))
    away = px[:, None] - px[None, :]
    if kind == "ema":
        kernel = np.exp(-np.maximum(away, 0) / memory) * (away >= 0) * -np.expm1(-weight / memory)
    elif kind == "mean":
        kernel = (np.abs(away) <= memory) * weight
    else:
        sigma = memory / np.sqrt(np.pi)
        kernel = np.exp(-((away / sigma) ** 2) / 2) * (np.abs(away) < 3.5 * sigma) * weight
    whole = np.full(x.size, np.nan)
    whole[known] = kernel @ py / kernel.sum(axis=1)
    return whole


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[Floats, Floats, str, float]]:
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    found = []
    for kind in ("ema", "mean", "gaussian"):
        num = int(random.integers(3, 120))
        spacing = random.choice([1.0, 1e-3, 250.0]) * random.choice([np.ones(num), random.integers(1, 9, num)])
        y = random.normal(size=num) * random.choice([1.0, 1e6])
        y[random.random(num) < random.choice([0, 0.2])] = np.nan
        if (~np.isnan(y)).sum() >= 3:
            found.append((np.cumsum(spacing), y, kind, float(random.choice([0.001, 0.3, 0.6, 0.9, 0.99, 0.999]))))
    return found


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_each_kind_is_what_numpy_says(ask: Ask, data: st.DataObject) -> None:
    found = data.draw(cases())
    answers = ask("charts/lines/smooth.js", SMOOTH, [[x.tolist(), y.tolist(), *how] for x, y, *how in found])
    for (x, y, kind, amount), answer in zip(found, answers, strict=True):
        expected = smoothed(x, y, kind, amount, x[-1] - x[0])
        fine = 5e-4 if kind == "gaussian" else 1e-6  # far below a pixel
        near = {"rtol": 1e-6, "atol": fine * np.nanmax(np.abs(y))}
        if kind != "mean":
            np.testing.assert_allclose(answer, expected, **near, err_msg=kind)
            continue
        # A point just at the edge of what is remembered may fall on either side.
        either = [smoothed(x, y, kind, amount, (x[-1] - x[0]) * (1 + slight)) for slight in (-1e-9, 1e-9)]
        assert np.array_equal(np.isnan(answer), np.isnan(expected))
        close = [np.isclose(answer, one, **near, equal_nan=True) for one in (expected, *either)]
        assert np.logical_or.reduce(close).all()


def test_with_even_steps_the_exponential_mean_is_the_one_that_everybody_knows(ask: Ask) -> None:
    y = np.random.default_rng(1).normal(size=1001)
    (answer,) = ask("charts/lines/smooth.js", SMOOTH, [[list(range(1001)), y.tolist(), "ema", 0.36, None]])
    mean, debias = 0.0, 0.0
    for at, value in enumerate(y):
        mean, debias = 0.6 * mean + 0.4 * value, 0.6 * debias + 0.4
        assert answer[at] == pytest.approx(mean / debias)


@pytest.mark.parametrize("kind", ["ema", "mean", "gaussian"])
def test_a_line_looks_the_same_however_densely_it_is_logged(kind: str, ask: Ask) -> None:
    x = np.arange(0, 2000.0)
    y = np.sin(x / 300) + np.where(x < 1000, 0, 0.5)
    sparse = np.concatenate([x[:700:7], x[700:]])  # rarely at first, each step later
    known = np.concatenate([y[:700:7], y[700:]])
    whole, part = ask(
        "charts/lines/smooth.js",
        SMOOTH,
        [[x.tolist(), y.tolist(), kind, 0.9, 2000], [sparse.tolist(), known.tolist(), kind, 0.9, 2000]],
    )
    same = np.interp(sparse, x, whole)
    np.testing.assert_allclose(part, same, atol=0.02)


@pytest.mark.parametrize("kind", ["ema", "mean", "gaussian"])
def test_a_gap_stays_a_gap(kind: str, ask: Ask) -> None:
    y = [1.0, 1.0, float("nan"), 1.0, 1.0, float("nan"), 1.0]
    (answer,) = ask("charts/lines/smooth.js", SMOOTH, [[list(range(7)), y, kind, 0.9, None]])
    np.testing.assert_allclose(answer, y)


@pytest.mark.parametrize(
    ("x", "y", "kind", "amount"),
    [
        ([1, 2, 3], [1, 5, 2], "ema", 0),
        ([1, 2, 3], [1, 5, 2], "none", 0.9),
        ([1, 2], [1, 5], "ema", 0.9),
        ([], [], "gaussian", 0.9),
    ],
)
def test_what_cannot_be_smoothed_stays_what_it_is(
    x: list[float], y: list[float], kind: str, amount: float, ask: Ask
) -> None:
    assert ask("charts/lines/smooth.js", SMOOTH, [[x, y, kind, amount, None]]) == [y]


def test_the_memory_grows_with_the_amount_and_with_the_range(ask: Ask) -> None:
    found = [ask("charts/lines/smooth.js", MEMORY, [amount, 1000]) for amount in (0.001, 0.1, 0.6, 0.9, 0.99, 0.999)]
    assert found == sorted(found)
    assert found[2] == pytest.approx(-1 / np.log(np.sqrt(0.6)))
    assert found[-1] == pytest.approx(1000, rel=1e-3), "never more than all there is"


def test_a_running_mean_forgets_a_value_however_large_it_was(ask: Ask) -> None:
    y = [1.0] * 200
    y[50] = 1e30
    (answer,) = ask("charts/lines/smooth.js", SMOOTH, [[list(range(200)), y, "mean", 0.6, None]])
    assert answer[60:] == pytest.approx([1.0] * 140)

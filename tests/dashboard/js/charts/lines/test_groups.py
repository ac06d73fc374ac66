"""Many lines as one with a band, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.dashboard.js.conftest import Ask

Floats = NDArray[np.float64]

TOGETHER = """({together}, cases) => cases.map(([members, options]) => {
    const read = (column) => column && Float64Array.from(column);
    const own = members.map(([x, y, low, high]) =>
        ({x: read(x), y: read(y), low: read(low) ?? undefined, high: read(high) ?? undefined}));
    return Object.fromEntries(Object.entries(together(own, options)).map(([name, column]) => [name, [...column]]));
})"""
STUDENT = "({student}, all) => all.map(student)"


def asked(ask: Ask, members: list[tuple[Floats, ...]], **options: Any) -> dict[str, Floats]:
    lists = [[column.tolist() for column in member] for member in members]
    (found,) = ask("charts/lines/groups.js", TOGETHER, [[lists, {"width": 300, **options}]])
    return {name: np.array(column, float) for name, column in found.items()}


def members_of(seed: int) -> list[tuple[Floats, Floats]]:
    random = np.random.default_rng(seed)
    found = []
    for _ in range(random.integers(1, 6)):
        num = int(random.integers(1, 60))
        x = np.cumsum(random.integers(1, 5, num)).astype(float) + random.integers(0, 20)
        y = random.normal(size=num) * 10.0 ** random.integers(-3, 4)
        y[random.random(num) < random.choice([0, 0.2])] = np.nan
        found.append((x, y))
    return found


def read_at(places: Floats, x: Floats, y: Floats) -> Floats:
    """On straight lines between points, nothing outside and nothing in a gap."""
    found = np.interp(places, x, y, left=np.nan, right=np.nan)
    for at, place in enumerate(places):
        exact = np.flatnonzero(x == place)
        if exact.size:
            found[at] = y[exact[0]]
    return found


# Two-sided 95 %, as tables have it.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 20: 2.086, 21: 2.080, 30: 2.042, 60: 2.000}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["minmax", "sd", "ci"]))
def test_mean_and_band_are_what_numpy_says(ask: Ask, seed: int, band: str) -> None:
    members = members_of(seed)
    found = asked(ask, members, band=band)
    places = np.unique(np.concatenate([x for x, _ in members]))
    np.testing.assert_array_equal(found["x"], places)
    values = np.array([read_at(places, x, y) for x, y in members])
    num = (~np.isnan(values)).sum(axis=0)
    mean = np.array(
        [np.mean(column[~np.isnan(column)]) if n else np.nan for column, n in zip(values.T, num, strict=True)]
    )
    near = {"rtol": 1e-7, "atol": 1e-9 * np.nanmax(np.abs(values), initial=1)}
    np.testing.assert_allclose(found["mean"], mean, **near)
    if band == "minmax":
        low = [np.nanmin(column) if n else np.nan for column, n in zip(values.T, num, strict=True)]
        high = [np.nanmax(column) if n else np.nan for column, n in zip(values.T, num, strict=True)]
        np.testing.assert_allclose(found["low"], low, **near)
        np.testing.assert_allclose(found["high"], high, **near)
        return
    deviation = np.array(
        [np.std(c[~np.isnan(c)], ddof=1) if n > 1 else np.nan for c, n in zip(values.T, num, strict=True)]
    )
    half = deviation if band == "sd" else np.array([TABLE.get(n - 1, np.nan) for n in num]) * deviation / np.sqrt(num)
    near["atol"] = max(near["atol"], (1e-3 if band == "ci" else 1e-9) * np.nanmax(half, initial=0))
    np.testing.assert_allclose(found["high"], mean + half, **near)
    np.testing.assert_allclose(found["low"], mean - half, **near)


def test_the_quantiles_are_those_of_students_tables(ask: Ask) -> None:
    assert ask("charts/lines/groups.js", STUDENT, list(TABLE)) == pytest.approx(list(TABLE.values()), abs=6e-4)
    assert ask("charts/lines/groups.js", STUDENT, [20, 21, 1_000_000]) == pytest.approx(
        [2.085963, 2.079614, 1.959966], abs=1e-5
    )


def test_no_extreme_is_lost_where_places_are_fewer_than_points(ask: Ask) -> None:
    x = np.arange(100_000.0)
    y = np.zeros(x.size)
    y[12_345] = 1e9
    y[77_777] = -1e9
    found = asked(ask, [(x, y), (x + 0.5, np.ones(x.size))], band="minmax")
    assert found["x"].size <= 601
    assert (found["high"].max(), found["low"].min()) == (1e9, -1e9)
    assert abs(found["x"][found["high"].argmax()] - 12_345) <= x.size / 600


def test_the_bands_of_buckets_count_and_not_only_their_means(ask: Ask) -> None:
    x = np.array([1.0, 2.0])
    found = asked(ask, [(x, x, x - 5, x + 7), (x, x, x - 1, x + 9)], band="minmax")
    assert (found["low"].tolist(), found["high"].tolist()) == ([-4, -3], [10, 11])


def test_a_run_that_ended_early_counts_no_longer(ask: Ask) -> None:
    found = asked(
        ask, [(np.array([1.0, 2, 3]), np.array([1.0, 1, 1])), (np.array([1.0, 2]), np.array([3.0, 3]))], band="sd"
    )
    assert found["mean"].tolist() == [2, 2, 1]
    assert np.isnan(found["low"][2])

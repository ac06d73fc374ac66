"""The range in which nearly all values lie, beside numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dashboard.js.conftest import Ask

RANGES = """({rangeWithoutOutliers}, cases) => cases.map(([columns, isLog]) =>
    rangeWithoutOutliers(columns.map((column) => Float64Array.from(column)), isLog))"""

Case = tuple[list[list[float]], bool]
NO_NUMBERS = [float("nan"), float("inf"), float("-inf"), 0.0]


def cases_of(seed: int) -> list[Case]:
    random = np.random.default_rng(seed)
    found: list[Case] = []
    for _ in range(40):
        columns = []
        for _ in range(random.integers(1, 4)):
            column = random.normal(size=random.integers(0, 60)) * 10.0 ** random.integers(-9, 9)
            column[random.random(column.size) < 0.1] = random.choice(NO_NUMBERS)
            columns.append(column.tolist())
        found.append((columns, bool(random.integers(2))))
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_hundredth_is_left_out_on_either_side(ask: Ask, seed: int) -> None:
    cases = cases_of(seed)
    for (columns, is_log), found in zip(cases, ask("charts/lines/outliers.js", RANGES, cases), strict=True):
        values = np.array([value for column in columns for value in column])
        values = values[np.isfinite(values)]
        values = np.log(values[values > 0]) if is_log else values
        if not values.size:
            assert found is None
            continue
        low, high = np.percentile(values, [1, 99])
        room = 0.1 * (high - low) or 0.1 * abs(high) or 1
        expected = np.array([low - room, high + room])
        got = np.array([found["low"], found["high"]])
        near = 1e-9 * max(abs(low), abs(high), 1e-9)
        np.testing.assert_allclose(np.log(got) if is_log else got, expected, rtol=1e-9, atol=near)


def test_a_flat_line_has_room_around_it(ask: Ask) -> None:
    cases = [[[[5, 5, 5]], False], [[[0, 0]], False], [[[1]], True]]
    for (column,), found in zip(
        [case[0] for case in cases], ask("charts/lines/outliers.js", RANGES, cases), strict=True
    ):
        assert found["low"] < column[0] < found["high"]

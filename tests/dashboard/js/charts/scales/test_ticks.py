"""Where an axis has its ticks, and what stands at them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dashboard.js.conftest import Ask

CALL = """async (ticks, [find, write, ...rest]) => {
    const labels = await import("http://modules.invalid/charts/scales/labels.js");
    const found = ticks[find](...rest);
    return [found, labels[write](found)];
}"""
NUMBERS = st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False)


@pytest.fixture(scope="module")
def ticks(ask: Ask) -> Ask:
    return lambda *words: ask("charts/scales/ticks.js", CALL, list(words))


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0, 10, 5, ["0", "2", "4", "6", "8", "10"]),
        (0.31, 0.44, 4, ["0.35", "0.40"]),
        (2.3451, 2.3454, 3, ["2.3451", "2.3452", "2.3453", "2.3454"]),
        (0, 1_000_000, 4, ["0", "250k", "500k", "750k", "1M"]),
        (3e-6, 9e-6, 3, ["4e−6", "6e−6", "8e−6"]),
        (-3, 3, 3, ["−2", "0", "2"]),
        (1e20, 3e20, 2, ["1e20", "2e20", "3e20"]),
    ],
)
def test_numbers_have_as_many_digits_as_it_takes(
    low: float, high: float, most: int, labels: list[str], ticks: Ask
) -> None:
    assert ticks("linearTicks", "numberLabels", low, high, most)[1] == labels


def test_between_two_steps_there_is_nothing(ticks: Ask) -> None:
    assert ticks("linearTicks", "stepLabels", 654_320.2, 654_322.9, 8, True)[1] == ["654,321", "654,322"]
    assert ticks("linearTicks", "stepLabels", 0, 10, 4, True)[0] == [0, 5, 10], "never 2.5"


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0.001, 1000, 8, ["0.001", "0.01", "0.1", "1", "10", "100", "1k"]),
        (1, 100, 8, ["1", "2", "5", "10", "20", "50", "100"]),
        (0.5, 42, 4, ["1", "3", "10", "30"]),
        (0.55, 0.99, 3, ["0.6", "0.8"]),
        (1e-9, 1, 4, ["1e−9", "1e−6", "0.001", "1"]),
        (2.1, 2.9, 4, ["2.2", "2.4", "2.6", "2.8"]),
    ],
)
def test_a_logarithmic_axis_has_powers_and_where_there_are_none_even_ticks(
    low: float, high: float, most: int, labels: list[str], ticks: Ask
) -> None:
    assert ticks("logTicks", "logLabels", low, high, most)[1] == labels


@pytest.mark.parametrize(
    ("find", "write", "low", "high", "first"),
    [
        ("spanTicks", "spanLabels", 90_000, 90_060, "90,000 s"),
        ("sizeTicks", "sizeLabels", 3.41 * 2**30, 3.44 * 2**30, "3.41 GiB"),
    ],
)
def test_neighbouring_ticks_are_never_called_the_same(
    find: str, write: str, low: float, high: float, first: str, ticks: Ask
) -> None:
    labels = ticks(find, write, low, high, 4)[1]
    assert len(set(labels)) == len(labels) > 2 and labels[0] == first


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0, 100, 4, ["0", "30 s", "1 min", "1 min 30 s"]),
        (0, 2, 4, ["0", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]),
        (-120, 120, 4, ["−2 min", "−1 min", "0", "1 min", "2 min"]),
        (0, 3 * 86_400, 3, ["0", "1 d", "2 d", "3 d"]),
    ],
)
def test_time_since_the_start_is_in_round_spans(
    low: float, high: float, most: int, labels: list[str], ticks: Ask
) -> None:
    assert ticks("spanTicks", "spanLabels", low, high, most)[1] == labels


def test_memory_is_counted_in_powers_of_two(ticks: Ask) -> None:
    labels = ticks("sizeTicks", "sizeLabels", 0, 5 * 2**30, 5)[1]
    assert labels == ["0 B", "1 GiB", "2 GiB", "3 GiB", "4 GiB", "5 GiB"]


def test_a_clock_says_the_day_where_it_is_a_new_one(ask: Ask) -> None:
    clock = """async ({clockTicks}) => {
        const {clockLabels} = await import("http://modules.invalid/charts/scales/labels.js");
        const at = (...parts) => new Date(2026, 10, ...parts) / 1000;
        return [clockLabels(clockTicks(at(21, 22, 50), at(22, 1, 10), 4)), clockLabels(clockTicks(at(1), at(29), 4))];
    }"""
    hours, days = ask("charts/scales/ticks.js", clock)
    assert hours == ["Nov 21 23:00", "Nov 22 00:00", "01:00"]
    assert days == ["Nov 1", "Nov 8", "Nov 15", "Nov 22", "Nov 29"]


@given(data=st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(1, 30)), min_size=40, max_size=40))
@settings(max_examples=8, deadline=None)
def test_ticks_lie_in_the_range_rise_and_say_different_things(data: list[tuple[float, float, int]], ask: Ask) -> None:
    cases = [(low, high, most) for low, high, most in data if high - low > 1e-9 * max(abs(low), abs(high), 1e-6)]
    every = """async ({linearTicks}, cases) => {
        const {numberLabels} = await import("http://modules.invalid/charts/scales/labels.js");
        return cases.map((one) => [linearTicks(...one), numberLabels(linearTicks(...one))]);
    }"""
    for (low, high, most), (found, labels) in zip(cases, ask("charts/scales/ticks.js", every, cases), strict=True):
        room = (high - low) * 1e-6
        assert all(low - room <= tick <= high + room for tick in found), (low, high, found)
        assert all(one < other for one, other in itertools.pairwise(found))
        assert len(found) <= 2 * most + 2
        assert len(set(labels)) == len(found), json.dumps([found, labels])


def test_where_there_is_no_range_there_are_no_ticks(ticks: Ask) -> None:
    no_range: Any = ticks("linearTicks", "numberLabels", 1, 1, 4)
    assert no_range == [[], []]
    for low, high in ((0, 1), (-1, 1), (1, 1)):
        assert ticks("logTicks", "logLabels", low, high, 4)[0] in ([], [1])

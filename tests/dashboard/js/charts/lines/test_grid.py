"""One x for lines that do not share theirs: nothing is lost that could be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.dashboard.js.conftest import Ask

Floats = NDArray[np.float64]
Line = tuple[Floats, Floats]

JOIN = """({join}, cases) => cases.map(([tables, options]) => {
    const xs = new Map(); // lines of one series share the array
    const own = (x) => (xs.has(String(x)) ? xs : xs.set(String(x), Float64Array.from(x))).get(String(x));
    const {x, ys} = join(tables.map(([x, y]) => ({x: own(x), y: Float64Array.from(y)})), options);
    return [[...x], ys.map((y) => Array.from(y, (value) => value === undefined ? "none" : value))];
})"""
COMMON = "({commonX}, [columns, options]) => [...commonX(columns.map((x) => Float64Array.from(x)), options)]"
WIDTH = 40
PLACES = 2 * WIDTH


def lines_of(random: np.random.Generator, num_points: int) -> list[Line]:
    found = []
    for _ in range(random.integers(2, 6)):
        num = int(random.integers(1, num_points))
        x = random.uniform(0, 100) + np.cumsum(random.choice([1.0, 0.01, 40.0], num) * random.uniform(0.5, 1, num))
        y = random.normal(size=num)
        y[random.random(num) < random.choice([0, 0.2])] = np.nan
        found.append((x, y))
    return found


def joined(ask: Ask, lines: list[Line], **options: Any) -> tuple[Floats, list[list[Any]]]:
    tables = [[x.tolist(), y.tolist()] for x, y in lines]
    ((x, ys),) = ask("charts/lines/grid.js", JOIN, [[tables, {"width": WIDTH, **options}]])
    return np.array(x), ys


def kept(x: Floats, y: list[Any]) -> tuple[Floats, Floats]:
    """The places where the line has something, and what: NaN where it is broken."""
    at = [place for place, value in enumerate(y) if value != "none"]
    return x[at], np.array([np.nan if y[place] is None else y[place] for place in at], float)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_where_all_places_fit_every_point_is_where_it_is(ask: Ask, seed: int) -> None:
    lines = lines_of(np.random.default_rng(seed), PLACES // 6)
    x, ys = joined(ask, lines)
    assert (np.diff(x) > 0).all()
    for (own, values), y in zip(lines, ys, strict=True):
        places, found = kept(x, y)
        np.testing.assert_array_equal(places, own)
        np.testing.assert_array_equal(found, values)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_of_each_cell_the_first_lowest_highest_and_last_stay(ask: Ask, seed: int, is_log: bool) -> None:
    lines = lines_of(np.random.default_rng(seed), 600)
    low, high = min(x[0] for x, _ in lines), max(x[-1] for x, _ in lines)
    x, ys = joined(ask, lines, isLogX=is_log)
    assert (np.diff(x) > 0).all()
    if len(np.unique(np.concatenate([x for x, _ in lines]))) <= PLACES:
        return  # the case above
    assert x.size <= PLACES
    for (own, values), y in zip(lines, ys, strict=True):
        places, found = kept(x, y)
        is_subsequence(found, values)
        for cell in np.unique(cells(own, low, high, is_log)):
            inside = values[cells(own, low, high, is_log) == cell]
            stayed = found[cells(places, low, high, is_log) == cell]
            finite = inside[~np.isnan(inside)]
            assert np.isnan(stayed).any() == np.isnan(inside).any(), "a gap stays, and none is made"
            if not finite.size:
                continue
            assert np.nanmin(stayed) == finite.min()
            assert np.nanmax(stayed) == finite.max()
            if inside.size <= 4:
                np.testing.assert_array_equal(stayed, inside)
            elif finite.size == inside.size:
                assert (stayed[0], stayed[-1]) == (inside[0], inside[-1])


def cells(x: Floats, low: float, high: float, is_log: bool) -> NDArray[np.int64]:
    x, low, high = (np.log(value) if is_log else value for value in (x, low, high))
    share = np.round((x - low) / (high - low), 12)
    return np.minimum(PLACES * share, PLACES - 1).astype(int) // 4


def is_subsequence(some: Floats, whole: Floats) -> None:
    rest = iter(whole.tolist())
    for value in some.tolist():
        assert any(value == other or (value != value and other != other) for other in rest), "in the order of the line"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_in_a_window_with_few_points_each_is_exact_and_none_is_lost_beside_it(ask: Ask, seed: int) -> None:
    random = np.random.default_rng(seed)
    lines = lines_of(random, 2000)
    middle = lines[0][0][random.integers(lines[0][0].size)]
    own = np.concatenate([x for x, _ in lines])
    near = np.sort(np.abs(own - middle))[min(own.size - 1, PLACES // 2)]
    view = [middle - near, middle + near]
    x, ys = joined(ask, lines, view=view)
    assert (np.diff(x) > 0).all()
    assert x.size <= PLACES + 2 * (PLACES // 4)
    for (own_x, values), y in zip(lines, ys, strict=True):
        places, found = kept(x, y)
        seen = (own_x >= view[0]) & (own_x <= view[1])
        shown = (places >= view[0]) & (places <= view[1])
        np.testing.assert_array_equal(places[shown], own_x[seen])
        np.testing.assert_array_equal(found[shown], values[seen])
        if (~np.isnan(values)).any():
            assert (np.nanmin(found), np.nanmax(found)) == (np.nanmin(values), np.nanmax(values))


def test_one_step_in_a_million_is_seen_beside_other_lines(ask: Ask) -> None:
    spike = """async ({join}, at) => {
        const num = 1_000_000;
        const [x, y] = [new Float64Array(num), new Float64Array(num)];
        for (let step = 0; step < num; step += 1) x[step] = step;
        y[at] = 1e9;
        const found = join([{x, y}, {x: x.map((step) => step + 0.5), y: x}], {width: 500});
        const place = found.ys[0].indexOf(1e9);
        return [found.x.length <= 1000, Math.abs(found.x[place] - at) < 2 * num / 500];
    }"""
    for at in (0, 1, 123_456, 999_998, 999_999):
        assert ask("charts/lines/grid.js", spike, at) == [True, True]


def test_lines_of_one_x_keep_it_however_long_it_is(ask: Ask) -> None:
    x = np.arange(1000.0)
    found, ys = joined(ask, [(x, x), (x, -x)])
    np.testing.assert_array_equal(found, x)
    assert ys[1] == (-x).tolist()


def test_nothing_is_joined_to_nothing(ask: Ask) -> None:
    assert ask("charts/lines/grid.js", JOIN, [[[], {}]]) == [[[], []]]


def test_places_between_lines_are_theirs_where_they_fit_and_even_where_not(ask: Ask) -> None:
    few = ask("charts/lines/grid.js", COMMON, [[[1, 2, 3], [2, 2.5]], {"width": WIDTH}])
    assert few == [1, 2, 2.5, 3]
    many = ask("charts/lines/grid.js", COMMON, [[list(range(1000)), [0.5, 2000]], {"width": WIDTH}])
    np.testing.assert_allclose(many, np.linspace(0, 2000, PLACES + 1))
    log = ask("charts/lines/grid.js", COMMON, [[list(range(1, 1001)), [1.5]], {"width": WIDTH, "isLogX": True}])
    np.testing.assert_allclose(log, np.geomspace(1, 1000, PLACES + 1))

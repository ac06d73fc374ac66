"""How a person looks at charts, as the page's address says it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.dashboard.js.charts.settings.test_state import ALL

IN_ADDRESS = (
    "axis", "smoothing", "isLogX", "isLogY", "ignoreOutliers", "ranks", "sort", "filter", "pinned", "collapsed",
    "charts", "group", "hidden",
)  # fmt: skip


@pytest.fixture
def address(page: Page) -> Any:
    """``address("({tidy, readQuery}, search) => …", search)``: with what both modules have."""
    base = "http://modules.invalid/charts/settings"
    both = f"Object.assign({{}}, await import('{base}/state.js'), await import('{base}/address.js'))"
    return lambda function, value=None: page.evaluate(f"async (value) => ({function})({both}, value)", value)


def test_an_address_says_that_all_is_as_at_the_start(address: Any) -> None:
    """Else whoever opens it would see it as they kept theirs."""
    assert address("({tidy, writeQuery}) => writeQuery('', tidy({}))") == "?x=step"
    assert address("({readQuery}) => readQuery('?x=step').isView") is True
    for search in ("?run=a&sort=value&metric=val/loss", "?run=a&run=b&hide="):  # as the table of runs links to Compare
        assert address("({readQuery}, search) => readQuery(search).isView", search) is False


def test_an_address_says_the_view_and_is_read_again(address: Any) -> None:
    search = address(
        "({tidy, writeQuery}, raw) => writeQuery('', tidy(raw), {zoom: {step: [-5, 2e21], time: [0.5, 1e-7 + 1]},"
        " open: 'a/b'})",
        ALL,
    )
    read = address(
        "({tidy, readQuery}, search) => { const r = readQuery(search); return {...r, patch: tidy(r.patch)} }", search
    )
    assert {name: read["patch"][name] for name in IN_ADDRESS} == {name: ALL[name] for name in IN_ADDRESS}
    assert read["zoom"] == {"step": [-5, 2e21], "time": [0.5, 1.0000001]}
    assert read["open"] == "a/b"


def test_an_address_keeps_what_others_wrote_in_it(address: Any) -> None:
    write = "({tidy, writeQuery}, search) => writeQuery(search, tidy({axis: 'time'}))"
    assert address(write, "?run=a&run=b&x=step&zoom=step:1-2") == "?run=a&run=b&x=time"


def test_an_address_says_only_what_stands_in_it(address: Any) -> None:
    assert address("({readQuery}, search) => readQuery(search)", "?run=a&logy=1") == {
        "patch": {"isLogY": True},
        "zoom": {},
        "open": None,
        "isView": True,
        "hasLists": True,
    }
    patch = address("({readQuery}, search) => readQuery(search).patch", "?smooth=none&logx=0")
    assert patch["smoothing"]["kind"] == "none" and patch["isLogX"] is False


@pytest.mark.parametrize(
    "search",
    [
        "?x=sideways&smooth=boxcar:9&ranks=3&order=colour&group=&logy=perhaps",
        "?zoom=step:9-1&zoom=step:a-b&zoom=9&zoom=mile:1-2&smooth=ema:NaN&smooth=:",
        "?order=&x=&smooth=&filter=",
        "?chart=train/loss&chart=&chart=:a&chart=size=9:b&chart=sideways,-up:c&fold=&pin=",
    ],
)
def test_what_an_address_has_wrong_is_as_at_the_start(address: Any, search: str) -> None:
    read = address(
        "({tidy, readQuery}, search) => { const r = readQuery(search); return {...r, patch: tidy(r.patch)} }", search
    )
    assert address("({tidy, trimmed}, patch) => trimmed(tidy(patch))", read["patch"]) == {}
    assert read["zoom"] == {}


def test_lists_that_would_not_fit_an_address_are_left_to_the_server(address: Any) -> None:
    pinned = [f"a/very/long/name/of/a/metric/{number}" for number in range(400)]
    search = address("({tidy, writeQuery}, pinned) => writeQuery('', tidy({pinned, axis: 'time'}))", pinned)
    assert search == "?x=time&lists=kept"
    assert address("({readQuery}, search) => readQuery(search).hasLists", search) is False


CHARTS = {
    "a:b/c": {"isLogY": False, "isLogX": True},
    "train/loss": {"ignoreOutliers": True, "size": {"columns": 2, "height": 320}},
    "wide, with = and &": {"size": {"columns": 3}},
}


def test_what_was_chosen_for_single_charts_is_in_the_address(address: Any) -> None:
    search = address("({tidy, writeQuery}, charts) => writeQuery('', tidy({charts}))", CHARTS)
    assert "chart=logx%2C-logy%3Aa%3Ab%2Fc" in search
    assert address("({tidy, readQuery}, search) => tidy(readQuery(search).patch).charts", search) == CHARTS

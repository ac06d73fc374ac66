"""How a person looks at charts: as it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

ALL: dict[str, Any] = {
    "axis": "relative",
    "smoothing": {"kind": "gaussian", "amount": 0.6},
    "isLogX": True,
    "isLogY": True,
    "ignoreOutliers": True,
    "ranks": "band",
    "sort": {"by": "value", "isDescending": True},
    "filter": "loss|acc & more=?",
    "collapsed": ["system"],
    "pinned": ["train/loss", "été/损失 %"],
    "charts": {"train/loss": {"isLogY": False, "size": {"columns": 2, "height": 320}}},
    "group": {"by": "train.lr,model.width", "band": "ci"},
    "hidden": ["run-1"],
    "colours": {"run-2": 7},
    "layout": {
        "sections": [{"key": "/own/1", "title": "Mine", "names": ["panel:1", "train/loss"]}],
        "panels": {"panel:1": {"title": "Ratio", "lines": ["val/loss / train/loss"], "x": "train/tokens"}},
        "removed": ["optim/lr"],
    },
}


@pytest.fixture
def state(ask: Ask) -> Any:
    """``state("({tidy}, raw) => tidy(raw)", raw)``."""
    return lambda function, value=None: ask("charts/settings/state.js", function, value)


def test_a_state_that_was_kept_is_the_same_again(state: Any) -> None:
    assert state("({tidy}, raw) => tidy(raw)", ALL) == ALL
    assert state("({tidy, trimmed}, raw) => trimmed(tidy(raw))", ALL) == ALL


def test_what_is_as_at_the_start_is_not_kept(state: Any) -> None:
    assert state("({tidy, trimmed}) => trimmed(tidy({}))") == {}


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        "words",
        [],
        dict.fromkeys(ALL, 7),
        dict.fromkeys(ALL),
        {"smoothing": {"kind": "ema", "amount": -1}, "charts": {"a": {"size": {"columns": 9}}, "b": 3}},
        {"layout": []},
        {"colours": {"a": 10, "b": -1, "c": 0.5, "d": "1"}, "pinned": [1, None, ""]},
    ],
)
def test_what_was_kept_wrong_is_as_at_the_start(state: Any, raw: Any) -> None:
    assert state("({tidy, trimmed}, raw) => trimmed(tidy(raw))", raw) == {}


def test_smoothing_stays_below_one(state: Any) -> None:
    tidy = "({tidy}, amount) => tidy({smoothing: {kind: 'ema', amount}}).smoothing"
    assert state(tidy, 1) == {"kind": "ema", "amount": 0.999}
    assert state(tidy, 0) == {"kind": "none", "amount": 0}


def test_a_chart_has_its_own_options_and_else_the_pages(state: Any) -> None:
    options = "({tidy, optionsOf}, [raw, name]) => optionsOf(tidy(raw), name)"
    assert state(options, [ALL, "train/loss"])["isLogY"] is False
    assert state(options, [ALL, "train/loss"])["size"] == {"columns": 2, "height": 320}
    other = state(options, [ALL, "val/loss"])
    assert other["isLogY"] is True and other["size"]["columns"] == 1 and other["smoothing"]["kind"] == "gaussian"


def test_a_machines_health_is_never_drawn_by_step(state: Any) -> None:
    axis = "({optionsOf, tidy}, [name, axis]) => optionsOf(tidy({axis}), name).axis"
    assert state(axis, ["system/gpu", "step"]) == "relative"
    assert state(axis, ["system/gpu", "time"]) == "time"
    assert state(axis, ["train/loss", "step"]) == "step"


def test_an_override_is_given_back_by_null(state: Any) -> None:
    changed = state(
        "({tidy, withOverride}) => { const own = withOverride(tidy({}), 'a', {isLogY: true, isLogX: true});"
        " return [own.charts, withOverride(own, 'a', {isLogX: null}).charts,"
        " withOverride(own, 'a', {isLogX: null, isLogY: null}).charts] }"
    )
    assert changed == [{"a": {"isLogY": True, "isLogX": True}}, {"a": {"isLogY": True}}, {}]


OF_RUNS = {"isLogX": True, "pinned": ["a"], "colours": {"run-1": 3}}
OF_BOTH = {**OF_RUNS, "compare": {"isLogY": True, "hidden": ["run-2"]}, "beside": {"axis": "relative"}}


def test_each_kind_of_page_has_a_view_of_its_own_and_shares_pins_and_colours(state: Any) -> None:
    seen = {
        page: state("({stateFor, trimmed}, [page, raw]) => trimmed(stateFor(page, raw))", [page, OF_BOTH])
        for page in ("run", "compare", "beside")
    }
    assert seen["run"] == OF_RUNS
    assert seen["compare"] == {"isLogY": True, "hidden": ["run-2"], "pinned": ["a"], "colours": {"run-1": 3}}
    assert seen["beside"] == {"axis": "relative", "pinned": ["a"], "colours": {"run-1": 3}}


@pytest.mark.parametrize("where", ["run", "compare", "beside"])
def test_what_one_page_keeps_leaves_the_others_view_as_it_is(state: Any, where: str) -> None:
    keep = "({stateFor, toKeep}, [page, raw, patch]) => toKeep(page, raw, {...stateFor(page, raw), ...patch})"
    assert state(keep, [where, OF_BOTH, {}]) == OF_BOTH
    changed = state(keep, [where, OF_BOTH, {"axis": "time", "pinned": []}])
    others = {page: OF_BOTH[page] for page in ("compare", "beside")}
    own = {"axis": "time"} if where == "run" else {where: {**others[where], "axis": "time"}}
    assert changed == {"isLogX": True, "colours": {"run-1": 3}, **others, **own}


@pytest.mark.parametrize("raw", [None, {}, {"compare": 3}, {"compare": ["a"]}, {"pinned": 3}, [], "x"])
def test_whatever_was_kept_is_a_state_of_each_page(state: Any, raw: Any) -> None:
    for page in ("run", "compare", "beside"):
        assert state("({stateFor, trimmed}, [page, raw]) => trimmed(stateFor(page, raw))", [page, raw]) == {}


def test_a_layout_keeps_what_is_good_of_it(state: Any) -> None:
    raw = {
        "sections": [{"key": "train", "names": 7}, {"title": "no key"}, 3],
        "panels": {"panel:1": {"lines": ["a", "a", 5], "title": 7}, "panel:2": {"lines": []}, "panel:3": "words"},
        "removed": ["x", None],
    }
    assert state("({tidy}, raw) => tidy({layout: raw}).layout", raw) == {
        "sections": [{"key": "train", "title": "", "names": []}],
        "panels": {"panel:1": {"title": "", "lines": ["a"], "x": ""}},
        "removed": ["x"],
    }

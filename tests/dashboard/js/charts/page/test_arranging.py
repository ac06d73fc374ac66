"""Layouts of charts as people change them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

NAMES = ["train/loss", "train/lr", "val/loss", "optim/a", "optim/b", "panel:1"]
PANELS = {"panel:1": {"title": "", "lines": ["train/loss"], "x": ""}}
# Does what is told to a layout, and returns the plan that a page would show of it, and the layout.
DO = """async (arranging, [names, layout, steps, pinned]) => {
  const {planned} = await import("http://modules.invalid/charts/page/sections.js");
  let found = {sections: [], panels: {}, removed: [], ...layout};
  const shown = () => planned(names.filter((name) => !found.removed.includes(name)), pinned, found);
  for (const [verb, ...words] of steps) {
    const takesPlan = !["removed", "put", "withoutSection"].includes(verb);
    found = arranging[verb](found, ...(takesPlan ? [shown()] : []), ...words) ?? found;
  }
  return [shown().map(({title, names}) => [title, names]), found];
}"""


@pytest.fixture
def do(ask_page: Ask) -> Any:
    def call(*steps: Any, pinned: tuple[str, ...] = ()) -> tuple[dict[str, list[str]], dict[str, Any]]:
        words = [NAMES, {"panels": PANELS}, [list(step) for step in steps], list(pinned)]
        plan, layout = ask_page("charts/page/arranging.js", DO, words)
        return dict(map(tuple, plan)), layout

    return call


START = {"Panels": ["panel:1"], "train & val": ["train/loss", "val/loss", "train/lr"], "optim": ["optim/a", "optim/b"]}


def test_without_a_change_names_say_where_a_chart_is(do: Any) -> None:
    assert do()[0] == START


def test_a_chart_moves_within_its_section_and_into_the_one_beside(do: Any) -> None:
    assert do(("moved", "train/lr", -1, False))[0]["train & val"] == ["train/loss", "train/lr", "val/loss"]
    assert do(("moved", "train/loss", 1, False))[0]["train & val"] == ["val/loss", "train/loss", "train/lr"]
    assert do(("moved", "train/loss", -1, False))[0] == START
    plan, layout = do(("moved", "val/loss", 1, True))
    assert plan["optim"] == ["val/loss", "optim/a", "optim/b"]
    assert plan["train"] == ["train/loss", "train/lr"]
    assert [one["key"] for one in layout["sections"]] == ["/panels", "train", "optim"], (
        "no section has changed its place"
    )
    assert do(("moved", "optim/a", 1, True))[0] == START


def test_a_drag_places_it_before_another_one_or_at_the_end(do: Any) -> None:
    assert do(("placed", "panel:1", {"to": "optim", "before": "optim/b"}))[0]["optim"] == [
        "optim/a",
        "panel:1",
        "optim/b",
    ]
    assert do(("placed", "optim/a", {"to": "train", "before": None}))[0]["train & val"][-1] == "optim/a"


def test_nothing_is_put_among_what_is_pinned(do: Any) -> None:
    assert do(("placed", "optim/a", {"to": "pinned ★"}), pinned=("train/loss",))[1]["sections"] == []


def test_a_removed_series_has_no_chart_until_it_is_put_back_and_a_panel_is_gone(do: Any) -> None:
    plan, layout = do(("removed", "optim/a"), ("removed", "panel:1"))
    assert plan["optim"] == ["optim/b"] and layout["removed"] == ["optim/a"]
    assert layout["panels"] == {}
    assert do(("removed", "optim/a"), ("put", "optim/a", None))[0] == START


def test_sections_are_added_named_moved_and_removed(do: Any) -> None:
    mine = ("withSection", "1", "Mine")
    into = ("placed", "val/loss", {"to": "/own/1"})
    plan, _ = do(mine, into)
    assert list(plan) == ["Mine", "Panels", "train", "optim"] and plan["Mine"] == ["val/loss"]
    plan, _ = do(mine, into, ("movedSection", "/own/1", 1), ("renamed", "optim", "Optimizer"))
    assert list(plan) == ["Panels", "Mine", "train", "Optimizer"]
    assert do(mine, into, ("withoutSection", "/own/1"))[0] == START

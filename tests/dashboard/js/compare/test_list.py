"""The list of a comparison: its address, and runs that are deleted while one looks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask


@pytest.mark.parametrize(
    ("changes", "query"),
    [
        ({"sort": "value"}, "?run=a&run=b&x=time&sort=value"),
        ({"run": ["b"]}, "?x=time&run=b"),
        ({"run": []}, "?x=time"),
        ({"x": "", "none": None}, "?run=a&run=b"),
        ({"metric": "train/a&b"}, "?run=a&run=b&x=time&metric=train%2Fa%26b"),
    ],
)
def test_the_address_changes_in_what_was_chosen_alone(changes: dict[str, Any], query: str, ask: Ask) -> None:
    asked = "({withQuery}, changes) => withQuery('?run=a&run=b&x=time', changes)"
    assert ask("compare/query.js", asked, changes) == query


def markup(*ids: str) -> str:
    facts = '<div class="compare-facts"><span>succeeded</span></div>'
    rows = "".join(f'<li data-key="run-{one}" data-run="{one}"><a class="name">{one}</a>{facts}</li>' for one in ids)
    known = json.dumps([{"id": one, "isLive": True} for one in ids])
    return f'<ul data-runs>{rows}</ul><script id="compared-runs" type="application/json">{known}</script>'


MERGE = """({withGone, knownRuns}, [before, after, ids]) => {
    const place = document.getElementById("place");
    place.innerHTML = before;
    const known = knownRuns(place, [], ids);
    place.innerHTML = withGone(after, place, ids);
    return [[...place.querySelectorAll("[data-run]")].map((row) => row.textContent), knownRuns(place, known, ids)];
}"""


def test_a_run_that_was_deleted_stays_until_it_is_taken_out(ask_page: Ask) -> None:
    rows, known = ask_page("compare/list.js", MERGE, [markup("a", "b"), markup("a"), ["a", "b"]])
    assert rows == ["asucceeded", "bDeleted. What was drawn stays until you take it out."]
    assert known == [{"id": "a", "isLive": True}, {"id": "b", "isLive": False}]
    rows, known = ask_page("compare/list.js", MERGE, [markup("a", "b"), markup("a"), ["a"]])
    assert (rows, known) == (["asucceeded"], [{"id": "a", "isLive": True}])


PAINT = """({paint}, [html, runs, state]) => {
    const place = document.getElementById("place");
    place.innerHTML = html;
    paint(place, runs, state);
    const rows = [...place.querySelectorAll("[data-run]")];
    return rows.map((row) => [row.querySelector("[data-eye]").ariaPressed, row.querySelector(".run-dot").className]);
}"""


def test_eyes_and_colours_are_as_the_charts_have_them(ask_page: Ask) -> None:
    button = '<button data-eye aria-pressed="true"></button><button class="run-dot series-1" data-pick></button>'
    row = '<li data-run="{}" data-colour="{}">' + button + "</li>"
    html = '<ul><li data-group="lr 1"><i class="run-dot"></i></li>' + row.format("a", 0) + row.format("b", 1) + "</ul>"
    runs = [{"id": "a", "fields": {"lr": "1"}}, {"id": "b", "fields": {"lr": "1"}}, {"id": "c", "fields": {"lr": "0"}}]
    state = {"hidden": ["b"], "colours": {"a": 4}, "group": None}
    assert ask_page("compare/list.js", PAINT, [html, runs, state]) == [
        ["true", "run-dot series-5"],
        ["false", "run-dot series-2"],
    ]
    grouped = ask_page("compare/list.js", PAINT, [html, runs, {**state, "group": {"by": "lr", "band": "sd"}}])
    assert [classes for _, classes in grouped] == ["run-dot series-2"] * 2, "in the colour of their group"

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
    row = '<tr class="grid-row" data-key="{0}"><td>{0}</td><td data-of="status">succeeded</td></tr>'
    known = json.dumps([{"id": one, "isLive": True} for one in ids])
    rows = "".join(row.format(one) for one in ids)
    return f'<table><tbody>{rows}</tbody></table><script id="compared-runs" type="application/json">{known}</script>'


MERGE = """({withGone, knownRuns}, [before, after, ids]) => {
    const place = document.getElementById("place");
    place.innerHTML = before;
    const known = knownRuns(place, [], ids);
    place.innerHTML = withGone(after, place, ids);
    return [[...place.querySelectorAll(".grid-row")].map((row) => row.textContent), knownRuns(place, known, ids)];
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
    const rows = [...place.querySelectorAll(".grid-row")];
    return rows.map((row) => [row.querySelector("input").checked, row.ariaSelected, row.className]);
}"""


def test_what_is_shown_and_its_colours_are_as_the_charts_have_them(ask_page: Ask) -> None:
    cells = '<td><input type="checkbox" class="row-check"></td><td><button data-pick></button></td>'
    row = '<tr class="grid-row series-1" data-key="{}">' + cells + "</tr>"
    head = '<tr class="grid-group" data-key="group-lr 1" data-group="lr 1"></tr>'
    html = f"<table><tbody>{head}{row.format('a')}{row.format('b')}</tbody></table>"
    runs = [
        {"id": "a", "colour": 0, "fields": {"lr": "1"}},
        {"id": "b", "colour": 1, "fields": {"lr": "1"}},
        {"id": "c", "colour": 2, "fields": {"lr": "0"}},
    ]
    state = {"hidden": ["b"], "colours": {"a": 4}, "group": None}
    assert ask_page("compare/list.js", PAINT, [html, runs, state]) == [
        [True, "true", "grid-row series-5"],
        [False, "false", "grid-row is-hidden series-2"],
    ]
    grouped = ask_page("compare/list.js", PAINT, [html, runs, {**state, "group": {"by": "lr", "band": "sd"}}])
    assert [classes for *_, classes in grouped] == ["grid-row series-2", "grid-row is-hidden series-2"], "the group's"

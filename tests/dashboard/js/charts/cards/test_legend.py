"""The order of a legend's rows, what is read out, and the bounds of a card."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

ROWS = [
    {"name": "rank 10", "value": 3, "min": 1, "max": 9},
    {"name": "rank 2", "value": None, "min": None, "max": None},
    {"name": "rank 1", "value": 1, "min": 0, "max": 5},
    {"name": "rank 3", "value": "NaN", "min": 2, "max": 7},
]
SORT = """({sorted}, [rows, sort]) => sorted(rows.map(({value, ...order}) =>
    ({order: {...order, value: value === "NaN" ? NaN : value}})), sort).map(({order}) => order.name)"""


@pytest.mark.parametrize(
    ("by", "is_descending", "names"),
    [
        ("name", False, ["rank 1", "rank 2", "rank 3", "rank 10"]),
        ("name", True, ["rank 10", "rank 3", "rank 2", "rank 1"]),
        ("value", False, ["rank 1", "rank 10", "rank 2", "rank 3"]),
        ("value", True, ["rank 10", "rank 1", "rank 2", "rank 3"]),
        ("max", True, ["rank 10", "rank 3", "rank 1", "rank 2"]),
    ],
)
def test_rows_are_sorted_and_what_has_no_number_comes_last(
    by: str, is_descending: bool, names: list[str], ask_page: Ask
) -> None:
    assert ask_page("charts/cards/legend.js", SORT, [ROWS, {"by": by, "isDescending": is_descending}]) == names


SHOW = """async ({Legend}, names) => {
    const host = document.createElement("div");
    const heard = [];
    const legend = new Legend(host, {sort: (by) => heard.push(by), light: (line) => heard.push(line?.key ?? null)});
    const rows = names.map((key) => ({key, runs: ["r"], colour: 0, label: key, value: "1", min: "0", max: "2"}));
    legend.show(rows, {by: "max", isDescending: true});
    const before = host.querySelector("tbody").children[0];
    legend.show([...rows].reverse(), {by: "max", isDescending: true});
    legend.values(new Map([[names[0], "7"]]));
    host.querySelectorAll("thead button")[1].click();
    before.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
    const texts = (selector) => [...host.querySelectorAll(selector)].map((one) => one.textContent);
    const isKept = host.querySelector("tbody").lastChild === before;
    const sorts = [...host.querySelectorAll("thead th")].map((th) => th.getAttribute("aria-sort"));
    return {names: texts("tbody th"), values: texts("td:nth-child(2)"), more: texts("p")[0], heard, isKept, sorts};
}"""


def test_rows_keep_their_elements_and_say_what_is_pointed_at(ask_page: Ask) -> None:
    shown = ask_page("charts/cards/legend.js", SHOW, ["<b>a</b>", "b"])
    assert shown["names"] == ["b", "<b>a</b>"], "markup in a name is text"
    assert shown["values"] == ["–", "7"]
    assert shown["heard"] == ["value", "<b>a</b>"]
    assert shown["isKept"]
    assert shown["sorts"] == ["none", "none", "none", "descending"]


def test_of_very_many_lines_the_legend_says_how_many_it_leaves_out(ask_page: Ask) -> None:
    shown = ask_page("charts/cards/legend.js", SHOW, [f"rank {one}" for one in range(512)])
    assert (len(shown["names"]), shown["more"]) == (200, "and 312 more")


SAY = """async ({readAt, rowsOf, spoken, spread}, [lines, note]) => {
    const {formatOf} = await import("http://modules.invalid/shared/format.js");
    const format = formatOf("train/loss");
    const built = {x: [7], ys: lines.map(({value}) => [value]), columns: lines.map(({key}) => ({kind: "main", key})),
        lines: new Map(lines.map(({key, value: last}) => [key, {run: "r", runs: ["r"], last, min: last, max: last}]))};
    const rows = rowsOf(built, {colourOf: () => 0, labelOf: (key) => key, sort: {by: "name"}, format});
    return [spoken(readAt(built, 0, "step", format), rows, lines[0].lit ? lines[0].key : undefined, note),
        spread({value: 2, low: 1, high: 9}, format), spread({value: 2, low: null, high: null}, format)];
}"""


def test_what_the_crosshair_reads_is_said(ask_page: Ask) -> None:
    def say(*lines: dict[str, Any], note: str = "") -> str:
        return str(ask_page("charts/cards/readout.js", SAY, [lines, note])[0])

    many = [{"key": f"rank {one}", "value": one} for one in range(6)]
    assert say({"key": "all", "value": 2.5}) == "step 7: 2.50"
    assert say(*many) == "step 7: rank 0 0, rank 1 1, rank 2 2, rank 3 3, and 2 more"
    assert say({"key": "rank 4", "value": 4, "lit": True}, *many[:2]) == "step 7: rank 4 4"
    assert say({"key": "all", "value": 1}, note="Attempt 2 began here.") == "step 7: 1. Attempt 2 began here."
    assert say({"key": "all", "value": None}) == "step 7: no point"


def test_a_bucket_is_read_with_its_extremes_and_a_point_without(ask_page: Ask) -> None:
    assert ask_page("charts/cards/readout.js", SAY, [[{"key": "all", "value": 1}], ""])[1:] == ["1 … 9", ""]


def test_a_card_is_one_to_four_columns_wide(ask: Ask) -> None:
    bounded = "({bounded}, sizes) => sizes.map(bounded)"
    sizes = [{"columns": 0, "height": 20}, {"columns": 9, "height": 5000.4}, {"columns": 2, "height": 224.6}]
    assert ask("charts/interaction/resize.js", bounded, sizes) == [
        {"columns": 1, "height": 120},
        {"columns": 4, "height": 900},
        {"columns": 2, "height": 225},
    ]


@pytest.mark.parametrize(("x", "share"), [(50, 0), (97, 0.07), (2, -0.08), (150, 1.0), (-100, -1.5)])
def test_the_view_follows_a_crosshair_that_leaves_its_middle(x: float, share: float, ask: Ask) -> None:
    assert ask("charts/interaction/keys.js", "({following}, x) => following([0, 100], x)", x) == pytest.approx(share)

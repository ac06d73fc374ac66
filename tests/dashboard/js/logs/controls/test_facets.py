"""Toggles with counts."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask

FACETS = """
    const {Facets} = module;
    const place = document.createElement("div");
    document.getElementById("place").replaceChildren(place);
    place.innerHTML = ["level", "stream", "rank", "attempt"].map((kind) => `<div data-facet=${kind}></div>`).join("");
    const changes = [];
    const facets = new Facets(place, (kind, values) => changes.push([kind, values]));
    const none = {level: [], stream: [], rank: [], attempt: []};
    const group = (kind) => place.querySelector(`[data-facet=${kind}]`);
    const texts = (kind) => [...group(kind).querySelectorAll("button")].map((one) => one.textContent.trim());
    const counts = {level: {info: 5, error: 1200, "": 3}, stream: {stdout: 7, stderr: 1}, rank: {10: 1, 2: 4, "-1": 2}};
    facets.show(counts, none);
"""


def told(ask: Ask, script: str) -> object:
    return ask("logs/controls/facets.js", "async (module) => {" + FACETS + script + "}")


def test_what_there_is_can_be_chosen_in_its_order(ask_page: Ask) -> None:
    shown = told(ask_page, 'return [texts("level"), texts("stream"), texts("rank"), group("attempt").hidden];')
    assert shown == [["error 1,200", "info 5"], ["stdout 7", "stderr 1"], ["node 2", "2 4", "10 1"], True]


def test_levels_add_up_and_streams_take_turns(ask_page: Ask) -> None:
    script = """
        for (const kind of ["level", "level", "stream", "stream"]) {
            const at = changes.filter(([one]) => one === kind).length;
            group(kind).querySelectorAll("button")[at].click();
        }
        group("level").querySelector("button").click();
        return changes;
    """
    assert told(ask_page, script) == [
        ["level", ["error"]],
        ["level", ["error", "info"]],
        ["stream", ["stdout"]],
        ["stream", ["stderr"]],
        ["level", ["info"]],
    ]


def test_new_counts_leave_the_focus_and_what_is_chosen(ask_page: Ask) -> None:
    script = """
        const button = group("rank").querySelector("button:last-child");
        button.focus();
        facets.show({...counts, level: {}, rank: {2: 5, 3: 1, 10: 9}}, {...none, level: ["error"]});
        return [document.activeElement === button, texts("rank"), texts("level"), group("level").hidden];
    """
    assert told(ask_page, script) == [True, ["2 5", "3 1", "10 9"], ["error 0"], False]

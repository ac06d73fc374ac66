"""What a line is called, which colour it has, and why an attempt began."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask


def run(run_id: str, name: str = "", **changes: Any) -> dict[str, Any]:
    values = {"id": run_id, "name": name or run_id, "start": 0, "colour": 0, "fields": {}, "attempts": []}
    return {**values, **changes}


@pytest.fixture
def runs(ask: Ask) -> Any:
    """``runs([run(…)], "runs.titles")``: what that expression says of the runs."""
    state = "const state = {hidden: [], colours: {}, group: null}; const none = new Map();"

    def tell(those: list[dict[str, Any]], expression: str) -> Any:
        return ask(
            "charts/data/runs.js",
            f"({{Runs}}, list) => {{ {state} const runs = new Runs(list); return {expression}; }}",
            those,
        )

    return tell


def test_a_line_of_one_run_is_called_by_its_labels(runs: Any) -> None:
    lines = """[{}, {rank: "0"}, {node: "node-a", gpu: "1"}].map((labels) => runs.labelOf({run: "a", labels}, "a"))"""
    assert runs([run("a")], lines) == ["all", "rank 0", "node-a gpu 1"]


def test_a_line_of_several_runs_is_called_by_its_run_and_alike_ones_by_their_ids(runs: Any) -> None:
    lines = """["a", "b", "c"].map((run) => runs.labelOf({run, labels: run === "c" ? {rank: "0"} : {}}, run))"""
    those = [run("a", "same"), run("b", "same"), run("c", "other")]
    assert runs(those, lines) == ["same (a)", "same (b)", "other · rank 0"]


def test_a_band_of_ranks_and_a_group_say_what_they_are(runs: Any) -> None:
    band = """runs.labelOf({run: "a", labels: {}, group: null}, "band a")"""
    assert runs([run("a")], band) == "all ranks"
    assert runs([run("a"), run("b")], band) == "a · all ranks"
    assert runs([run("a"), run("b")], """runs.labelOf({run: null, group: "lr 0.1"}, "group lr 0.1")""") == "lr 0.1"


def test_of_several_runs_each_has_its_own_colour_and_the_chosen_one_wins(runs: Any) -> None:
    those = [run("a", colour=3), run("b", colour=4)]
    colour = """["a", "b"].map((run) => runs.colourOf({run, labels: {}}, {...state, colours: {b: 7}}, none))"""
    assert runs(those, colour) == [3, 7]


def test_of_one_run_ranks_have_their_colours_in_their_order(ask: Ask) -> None:
    names = """new Map([["x", new Map(["10", "9", "0"].map((rank) => [`a ${rank}`, {run: "a", labels: {rank}}]))],
      ["y", new Map([["a all", {run: "a", labels: {}}]])]])"""
    found = ask(
        "charts/data/runs.js",
        f"""({{Runs, labelColours}}, list) => {{
          const [runs, colours] = [new Runs(list), labelColours({names})];
          const colourOf = (labels) => runs.colourOf({{run: "a", labels}}, {{}}, colours);
          return [{{rank: "0"}}, {{rank: "9"}}, {{rank: "10"}}, {{}}].map(colourOf);
        }}""",
        [run("a")],
    )
    assert found == [0, 1, 2, 0]


def test_runs_are_grouped_by_what_their_specs_say(runs: Any) -> None:
    those = [run("a", fields={"train.lr": "0.1"}), run("b", fields={"train.lr": "0.01"}), run("c")]
    grouped = """[...runs.groupsOf({...state, group: {by: "train.lr", band: "sd"}}).of.values()]"""
    assert runs(those, grouped) == ["lr 0.1", "lr 0.01", "lr not set"]
    assert runs(those, "runs.groupsOf(state)") is None
    assert runs(those[:1], """runs.groupsOf({...state, group: {by: "train.lr", band: "sd"}})""") is None


def test_of_one_run_alone_nothing_is_hidden(runs: Any) -> None:
    hidden = """[...(runs.hiddenOf({...state, hidden: ["a"]}) ?? [])]"""
    assert runs([run("a")], hidden) == []
    assert runs([run("a"), run("b")], hidden) == ["a"]


def test_an_attempt_says_why_it_began(runs: Any) -> None:
    attempts = [{"fence": 1, "number": 1, "cause": ""}, {"fence": 2, "number": 2, "cause": "Attempt 2 began."}]
    those = [run("a", attempts=attempts)]
    assert runs(those, """runs.causeOf("a", 2, () => {})""") == {"sentence": "Attempt 2 began."}
    assert runs(those, """runs.causeOf("a", 1, () => {})""") is None
    assert runs(those, """runs.causeOf("unknown", 9, () => {})""") == {"sentence": "A new attempt began."}


def test_an_attempt_that_began_meanwhile_is_asked_for_once(ask: Ask) -> None:
    found = ask(
        "charts/data/runs.js",
        """async ({Runs}, list) => {
          const {fetch} = globalThis;
          let num = 0;
          const attempts = [...list[0].attempts, {fence: 4, number: 2, cause: "Attempt 2 began. Rank 0 died."}];
          const found = {alarms: [], attempts, marks: []};
          globalThis.fetch = async () => { num += 1; return {ok: true, json: async () => found}; };
          const runs = new Runs(list);
          const known = new Promise((resolve) => runs.causeOf("a", 4, resolve));
          runs.causeOf("a", 4, () => {});
          await known;
          globalThis.fetch = fetch;
          return [runs.causeOf("a", 4, () => {}).sentence, num];
        }""",
        [run("a", attempts=[{"fence": 1, "number": 1, "cause": ""}])],
    )
    assert found == ["Attempt 2 began. Rank 0 died.", 1]


MARKS = [
    {"step": 40, "time": 100.0, "sentence": "mate: new data", "kind": "note"},
    {"step": None, "time": 110.0, "sentence": "Rank 1 is slow.", "kind": "event"},
    {"step": None, "time": 90.0, "sentence": "Before its first point.", "kind": "event"},
]
ALARM = {"metric": "loss", "attempt": 1, "step": 7, "time": 107.0, "sentence": "It rose."}


@pytest.mark.parametrize(
    ("axis", "found"),
    [
        ("step", [["alarm", 7], ["note", 40], ["event", 50]]),
        ("relative", [["alarm", 7], ["note", 0], ["event", 10], ["event", -10]]),
        ("value loss", []),
    ],
)
def test_what_happened_is_marked_where_the_axis_has_it(runs: Any, axis: str, found: list[Any]) -> None:
    at = "(run, time) => (time < 100 ? null : 50)"
    asked = f"runs.marksOf(['loss'], '{axis}', {at}).map(({{kind, x}}) => [kind, x])"
    those = [run("a", start=100.0, alarms=[ALARM, {**ALARM, "metric": "other"}], marks=MARKS)]
    assert runs(those, asked) == found

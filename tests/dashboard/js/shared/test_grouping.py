"""Groups have the same names and colours in lists and in charts."""

from __future__ import annotations

import pytest

from dashboard.pages.compare.specs import group_text
from tests.dashboard.js.conftest import Ask

RUNS = [
    {"id": "a", "fields": {"train.learning_rate": "0.1", "train.batch_size": "8"}},
    {"id": "b", "fields": {"train.learning_rate": "0.1"}},
    {"id": "c", "fields": {"train.learning_rate": "10"}},
    {"id": "d", "fields": {"train.learning_rate": "9"}},
]


@pytest.mark.parametrize("by", ["train.learning_rate", "train.learning_rate,train.batch_size", "no.such"])
def test_a_group_is_named_as_the_server_names_it(by: str, ask: Ask) -> None:
    names = ask(
        "shared/grouping.js", "({groupText}, [runs, by]) => runs.map(({fields}) => groupText(fields, by))", [RUNS, by]
    )
    assert names == [group_text(run["fields"], by.split(",")) for run in RUNS]  # type: ignore[arg-type]


def test_groups_are_coloured_in_the_order_of_their_numbers(ask: Ask) -> None:
    colours = ask(
        "shared/grouping.js", "({groupColours}, runs) => [...groupColours(runs, 'train.learning_rate')]", RUNS
    )
    assert colours == [["learning_rate 0.1", 0], ["learning_rate 9", 1], ["learning_rate 10", 2]]


def test_numbers_are_ordered_by_their_size_wherever_they_stand(ask: Ask) -> None:
    names = ["rate-0.001", "rate-0.0003", "rate-1e-05", "rate-10", "rate-9", "x -2", "x -10", "x", "gpt2-xl", "gpt2"]
    runs = [{"id": name, "fields": {"name": name}} for name in names]
    colours = ask("shared/grouping.js", "({groupColours}, runs) => [...groupColours(runs, 'name').keys()]", runs)
    assert [one.removeprefix("name ") for one in colours] == [
        "gpt2", "gpt2-xl", "rate-1e-05", "rate-0.0003", "rate-0.001", "rate-9", "rate-10", "x", "x -10", "x -2",
    ]  # fmt: skip

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

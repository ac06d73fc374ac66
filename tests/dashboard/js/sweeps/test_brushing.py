"""What is brushed in the parallel coordinates, as the table's address has it; and what varying a field suggests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask


def test_brushes_take_the_place_of_those_before(ask_page: Ask) -> None:
    brushes = [
        {"axis": "train.learning_rate", "ranges": [[0.0001, 0.012345678912]], "texts": []},
        {"axis": "train.optimizer", "ranges": [], "texts": ["adamw", "sgd"]},
    ]
    function = "({withBrushes}, [before, brushes]) => withBrushes(new URLSearchParams(before), brushes).getAll('brush')"
    before = "brush=old|0..1&sort=value:0"
    assert ask_page("sweeps/brushing.js", function, [before, brushes]) == [
        "train.learning_rate|0.0001..0.0123456789", "train.optimizer=adamw", "train.optimizer=sgd",
    ]  # fmt: skip
    kept = "({withBrushes}, before) => String(withBrushes(new URLSearchParams(before), []))"
    assert ask_page("sweeps/brushing.js", kept, before) == "sort=value%3A0"


@pytest.mark.parametrize(
    ("value", "is_whole", "expected"),
    [
        (3e-4, False, {"low": "0.00003", "high": "0.003", "log": True, "whole": False}),
        (32, True, {"low": "16", "high": "64", "log": False, "whole": True}),
        (1, True, {"low": "1", "high": "2", "log": False, "whole": True}),
        (0, False, {"low": "0", "high": "1", "log": False, "whole": False}),
    ],
)
def test_varying_a_number_suggests_a_range_around_it(
    ask: Ask, value: float, is_whole: bool, expected: dict[str, Any]
) -> None:
    call = "({suggestedAround}, [value, isWhole]) => suggestedAround('p', value, isWhole)"
    found = ask("launch/vary.js", call, [value, is_whole])
    assert {name: found[name] for name in expected} == expected


def test_the_values_of_a_condition_are_written_as_they_are_read_again(ask: Ask) -> None:
    read = "({valuesIn}, texts) => texts.map(valuesIn)"
    texts = ["adamw, sgd", "16, 32", '"1", true', ""]
    values = [["adamw", "sgd"], [16, 32], ["1", True], []]
    assert ask("launch/vary.js", read, texts) == values
    written = "({written}, values) => values.map(written)"
    conditions = [["adamw", "sgd"], 16, ["1", True], "a, b"]
    assert ask("launch/vary.js", written, conditions) == ["adamw, sgd", "16", '"1", true', '"a, b"']

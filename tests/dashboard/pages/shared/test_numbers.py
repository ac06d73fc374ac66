from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.pages.shared import numbers
from tests.dashboard.figures import CASES
from trainyard.formats import figures

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
AGES = [
    (2, "just now"),
    (42, "42 s ago"),
    (250, "4 min ago"),
    (7300, "2 h ago"),
    (200_000, "2 d ago"),
    (-90, "in 1 min"),
]


@pytest.mark.parametrize(("function", "arguments", "words"), CASES)
def test_a_figure_is_written_as_the_table_says(function: str, arguments: list[Any], words: str) -> None:
    assert getattr(figures, function)(*arguments) == words


@pytest.mark.parametrize(("seconds", "words"), AGES)
def test_an_age_has_one_unit(seconds: float, words: str) -> None:
    assert numbers.age(NOW - timedelta(seconds=seconds), NOW) == words

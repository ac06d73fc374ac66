"""Figures and times in the browser are written as on the server."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from tests.dashboard.figures import CASES
from tests.dashboard.js.conftest import Ask
from tests.dashboard.pages.shared.test_numbers import AGES, NOW
from trainyard.formats import figures

KINDS = ("number", "size", "speed", "percent", "seconds", "duration", "count")


def test_a_figure_is_written_as_the_table_says(ask: Ask) -> None:
    asked = [[function, arguments] for function, arguments, _ in CASES]
    found = ask("shared/format.js", "(format, all) => all.map(([name, args]) => format[name](...args))", asked)
    assert found == [words for _, _, words in CASES]


@pytest.mark.parametrize("kind", KINDS)
def test_the_browser_says_of_any_value_what_the_server_says(kind: str, ask: Ask) -> None:
    chance = random.Random(kind)
    values = [chance.choice((1, -1)) * 10 ** chance.uniform(-9, 17) for _ in range(2000)]
    values += [whole / 8 for whole in range(4000)]  # among them many in the middle between two roundings
    if kind in ("duration", "count"):
        values = [abs(value) for value in values if abs(value) < 2**53]
    found = ask("shared/format.js", f"(format, all) => all.map((value) => format.{kind}(value))", values)
    ours = [getattr(figures, kind)(value) for value in values]
    assert [one for one in zip(values, found, ours, strict=True) if one[1] != one[2]] == []


def test_the_browser_writes_times_as_the_server_does(ask: Ask) -> None:
    now = NOW.timestamp() * 1000
    moments = [[(NOW - timedelta(seconds=seconds)).timestamp() * 1000, now] for seconds, _ in AGES]
    assert ask("shared/format.js", "({age}, all) => all.map(([at, now]) => age(at, now))", moments) == [
        one for _, one in AGES
    ]

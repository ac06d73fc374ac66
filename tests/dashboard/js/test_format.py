"""Numbers and times in the browser are written as on the server."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.dashboard.js.conftest import Ask
from tests.dashboard.test_numbers import AGES, DURATIONS, NOW, NUMBERS, SIZES

pytestmark = pytest.mark.browser


def test_the_browser_writes_numbers_as_the_server_does(ask: Ask) -> None:
    numbers = ask("format.js", "({number}, values) => values.map((x) => number(x))", [value for value, _ in NUMBERS])
    assert numbers == [words for _, words in NUMBERS]
    sizes = ask("format.js", "({size}, values) => values.map((x) => size(x))", [value for value, _ in SIZES])
    assert sizes == [words for _, words in SIZES]


def test_the_browser_writes_times_as_the_server_does(ask: Ask) -> None:
    durations = ask("format.js", "({duration}, all) => all.map((x) => duration(x))", [value for value, _ in DURATIONS])
    assert durations == [words for _, words in DURATIONS]
    now = NOW.timestamp() * 1000
    moments = [[(NOW - timedelta(seconds=seconds)).timestamp() * 1000, now] for seconds, _ in AGES]
    assert ask("format.js", "({age}, all) => all.map(([at, now]) => age(at, now))", moments) == [one for _, one in AGES]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("system/memory_bytes", 3_330_000_000, "3.1 GiB"),
        ("train/tokens_per_second", 12_400, "12.4k tok/s"),
        ("train/samples_per_second", 950, "950 samples/s"),
        ("system/cpu_percent", 61.23, "61.2 %"),
        ("train/step_time_s", 0.35, "0.350 s"),
        ("train/loss", 2.5, "2.50"),
        ("train/losses", 2.5, "2.50"),
    ],
)
def test_a_unit_follows_from_the_name_of_a_metric(name: str, value: float, words: str, ask: Ask) -> None:
    assert ask("format.js", "({formatOf}, [name, value]) => formatOf(name)(value)", [name, value]) == words

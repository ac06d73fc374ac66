from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboard import numbers

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
# The browser says the same: tests/dashboard/js/test_modules.py runs these cases through static/js/format.js.
NUMBERS = [
    (0, "0"),
    (4, "4"),
    (0.8123, "0.812"),
    (12.345, "12.3"),
    (123.4, "123"),
    (999.7, "1.00k"),
    (12_400, "12.4k"),
    (12_034, "12.0k"),
    (12_000, "12k"),
    (3_200_000, "3.20M"),
    (-0.5, "−0.500"),
    (0.0003, "3e−4"),
    (0.000612, "6.12e−4"),
    ("NaN", "NaN"),
    ("-Infinity", "−∞"),
    (None, "–"),
]
SIZES = [(0, "0 B"), (512, "512 B"), (1536, "1.5 KiB"), (3_330_000_000, "3.1 GiB"), (200 * 1024**2, "200 MiB")]
DURATIONS = [
    (0.25, "250 ms"),
    (42, "42 s"),
    (190, "3 min 10 s"),
    (3600, "1 h"),
    (8040, "2 h 14 min"),
    (90_000, "1 d 1 h"),
    (None, "–"),
]
AGES = [
    (2, "just now"),
    (42, "42 s ago"),
    (250, "4 min ago"),
    (7300, "2 h ago"),
    (200_000, "2 d ago"),
    (-90, "in 1 min"),
]


@pytest.mark.parametrize(("value", "words"), NUMBERS)
def test_a_number_has_three_significant_digits(value: float | str | None, words: str) -> None:
    assert numbers.number(value) == words


def test_a_unit_follows_the_number() -> None:
    assert numbers.number(12_400, "tok/s") == "12.4k tok/s"


@pytest.mark.parametrize(("value", "words"), SIZES)
def test_bytes_are_counted_in_powers_of_1024(value: int, words: str) -> None:
    assert numbers.size(value) == words


@pytest.mark.parametrize(("seconds", "words"), DURATIONS)
def test_a_duration_has_its_two_largest_units(seconds: float | None, words: str) -> None:
    assert numbers.duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), AGES)
def test_an_age_has_one_unit(seconds: float, words: str) -> None:
    assert numbers.age(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.384, "38 %"), (1.0, "100 %"), (0.0999, "10 %"), (0.0042, "0.42 %"), (0.05, "5 %"), (0.0, "0 %"), (None, "–")],
)
def test_a_share_is_said_in_percent(share: float | None, words: str) -> None:
    assert numbers.percent(share) == words


def test_steps_are_shown_whole() -> None:
    assert numbers.count(1240) == "1,240"

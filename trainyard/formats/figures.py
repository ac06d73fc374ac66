"""Figures as people read them: three significant digits with units, sizes, shares, durations.

One function for each kind of figure. ``static/js/shared/format.js`` has the same functions with the same answers, for
the browser; ``tests/dashboard/figures.py`` holds the table of cases for both.
"""

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

Value = float | str | None  # the text is what JSON cannot hold: NaN, Infinity, -Infinity

SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
LARGER = ((1e18, "E"), (1e15, "P"))  # before a unit only: 2 PFLOP is a word, 2P is none
BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
RATES = {"tokens": "tok/s", "samples": "samples/s"}  # what a recipe counts, and how its throughput is written


def number(value: Value, unit: str = "") -> str:
    """``12_400, "tok/s"`` -> ``12.4k tok/s``; a dash for what is not there, the word for what is not finite."""
    if value is None or value == "":
        return "–"
    text = _not_finite(float(value)) or _finite(float(value))
    return f"{text} {unit}" if unit else text


def scaled(value: Value, unit: str) -> str:
    """``8.53e9, "FLOP/s"`` -> ``8.53 GFLOP/s``: for units that are said with their prefix."""
    if value is None or value == "":
        return "–"
    value = float(value)
    for scale, letter in (*LARGER, *SCALES):
        if scale * 0.9995 <= abs(value) < 1e21:
            return f"{_three_digits(value / scale)} {letter}{unit}"
    return number(value, unit)


def count(value: float | None) -> str:
    """``1240`` -> ``1,240``: whole numbers that people compare digit by digit, such as steps."""
    return "–" if value is None else f"{int(value):,}"


def size(value: Value) -> str:
    """Bytes in powers of 1,024: ``3_330_000_000`` -> ``3.1 GiB``."""
    if value is None or not math.isfinite(float(value)):
        return number(value)
    amount, unit = float(value), 0
    while abs(amount) >= (999.5 if unit else 1024) and unit < len(BYTES) - 1:
        amount /= 1024
        unit += 1
    return f"{_fixed(amount, 0 if unit == 0 or abs(amount) >= 99.95 else 1)} {BYTES[unit]}"


def speed(value: Value) -> str:
    """Bytes in a second: ``3_330_000_000`` -> ``3.1 GiB/s``."""
    text = size(value)
    return text if text == "–" else f"{text}/s"


def rate(value: Value, unit: str) -> str:
    """``12_400, "tokens"`` -> ``12.4k tok/s``: throughput, in what a recipe counts."""
    return number(value, RATES.get(unit, f"{unit}/s"))


def percent(share: Value) -> str:
    """``0.384`` -> ``38 %``, ``0.00424`` -> ``0.42 %``: two digits are enough to compare shares."""
    if share is None or not math.isfinite(float(share)):
        return "–"
    hundredths = 100 * float(share)
    magnitude = abs(hundredths)
    if magnitude == 0:
        return "0 %"
    places = max(0, 1 - math.floor(math.log10(magnitude)))
    return f"{_plain(_fixed(hundredths, min(places, 20)))} %".replace("-", "−")


def seconds(value: Value) -> str:
    """``0.0123`` -> ``12.3 ms``: a measured time, which is compared digit by digit."""
    if value is None or not math.isfinite(float(value)):
        return number(value)
    value = float(value)
    magnitude = abs(value)
    if magnitude >= 119.95:
        return duration(value)
    if magnitude >= 0.9995 or magnitude == 0:
        return number(value, "s")
    return number(value * 1e3, "ms") if magnitude >= 0.9995e-3 else number(value * 1e6, "µs")


def between(low: float, high: float, write: Callable[[float], str]) -> str:
    """``1.3e9, 1.6e9, size`` -> ``1.2 to 1.5 GiB``: a range, its unit once where both ends have the same."""
    (first, _, unit), (second, _, other) = (write(value).rpartition(" ") for value in (low, high))
    return f"{first} to {second} {other}" if unit == other else f"{first} {unit} to {second} {other}"


def duration(value: Value) -> str:
    """``8040`` -> ``2 h 14 min``: how long something has taken; the two largest units that matter."""
    if value is None or not math.isfinite(float(value)):
        return "–"
    value = float(value)
    if value < 1:
        return f"{max(0, _rounded(value * 1000))} ms"
    whole = _rounded(value)
    if whole < 60:
        return f"{whole} s"
    for unit, name, below, below_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name} {rest} {below_name}" if rest else f"{whole // unit} {name}"
    raise AssertionError("from 60 s on one unit fits")


def metric(value: Value, name: str) -> str:
    """Write a value of the series ``name``: how follows from the name, so that it is the same in lists and charts."""
    return next((write(value) for pattern, write in _BY_NAME if pattern.search(name)), None) or number(value)


# The first that fits is taken.
_BY_NAME: tuple[tuple[re.Pattern[str], Callable[[Value], str]], ...] = (
    (re.compile(r"(^|[/_])bytes$"), size),
    (re.compile(r"(^|[/_])bytes_per_s(econd)?$"), speed),
    (re.compile(r"(_percent|utilization)$"), lambda value: percent(None if value is None else float(value) / 100)),
    (re.compile(r"(^|[/_])mfu$"), percent),
    (re.compile(r"tokens_per_s(econd)?$"), lambda value: rate(value, "tokens")),
    (re.compile(r"samples_per_s(econd)?$"), lambda value: rate(value, "samples")),
    (re.compile(r"flops_per_s(econd)?$"), lambda value: scaled(value, "FLOP/s")),
    (re.compile(r"temperature_c$"), lambda value: number(value, "°C")),
    (re.compile(r"power_w$"), lambda value: number(value, "W")),
    (re.compile(r"(?<!_per)_(s|seconds)$"), seconds),
)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "∞" if value == math.inf else "−∞" if value == -math.inf else ""


def _finite(value: float) -> str:
    magnitude = abs(value)
    if value == 0:
        return "0"
    if magnitude < 0.001 or magnitude >= 1e15:
        exact = Decimal(value)
        power = exact.adjusted()
        digits = exact.scaleb(-power).quantize(Decimal("1.00"), ROUND_HALF_UP)
        if abs(digits) >= 10:
            digits, power = digits / 10, power + 1
        return f"{_plain(f'{digits:.2f}')}e{power}".replace("-", "−")
    for scale, letter in SCALES:
        if magnitude >= scale * 0.9995:
            return _three_digits(value / scale) + letter
    return _three_digits(value)


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    places = 0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2 if magnitude >= 0.9995 else 3
    # 4, not 4.00: whole numbers are shown whole
    return (f"{int(value)}" if value == int(value) else _fixed(value, places)).replace("-", "−")


def _fixed(value: float, places: int) -> str:
    """As toFixed of a browser: a value in the middle goes away from zero, where Python's own format goes to even."""
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}"


def _plain(text: str) -> str:
    """Return the text without zeros that say nothing: ``0.40`` is ``0.4``."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded(value: float) -> int:
    return math.floor(value + 0.5)

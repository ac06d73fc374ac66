"""Numbers and times as people read them: three significant digits with units, durations, ages.

``static/js/format.js`` says the same in the browser; ``tests/dashboard/test_numbers.py`` holds the table of cases.
"""

from __future__ import annotations

import math
from datetime import datetime

SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | str | None, unit: str = "") -> str:
    """``12_400, "tok/s"`` -> ``12.4k tok/s``; a dash for what is not there, the word for what is not finite."""
    if value is None or value == "":
        return "–"
    value = float(value)
    if math.isnan(value):
        text = "NaN"
    elif math.isinf(value):
        text = "∞" if value > 0 else "−∞"
    else:
        text = _finite(value)
    return f"{text} {unit}" if unit else text


def count(value: float | None) -> str:
    """``1240`` -> ``1,240``: whole numbers that people compare digit by digit, such as steps."""
    return "–" if value is None else f"{int(value):,}"


def size(value: float | None) -> str:
    """Bytes in powers of 1,024: ``3_330_000_000`` -> ``3.1 GiB``."""
    if value is None:
        return "–"
    amount = float(value)
    for unit in BYTES:
        if abs(amount) < 1024 or unit == BYTES[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" or abs(amount) >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit always returns")


def percent(share: float | None) -> str:
    """``0.384`` -> ``38 %``, ``0.00424`` -> ``0.42 %``: two digits are enough to compare shares."""
    if share is None or not math.isfinite(share):
        return "–"
    return f"{100 * share:.0f} %" if abs(share) >= 0.1 else f"{float(f'{100 * share:.2g}'):g} %"


def duration(seconds: float | None) -> str:
    """``8040`` -> ``2 h 14 min``: the two largest units that matter."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for unit, name, below, below_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name} {rest} {below_name}" if rest else f"{whole // unit} {name}"
    raise AssertionError("above 60 s one unit fits")


def age(at: datetime, now: datetime) -> str:
    """``4 min ago``, ``in 2 h``, ``just now``: one unit, because the exact time is on hover."""
    seconds = (now - at).total_seconds()
    if abs(seconds) < 5:
        return "just now"
    span = abs(seconds)
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if span >= unit:
            text = f"{int(span // unit)} {name}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    raise AssertionError("above 5 s one unit fits")


def _finite(value: float) -> str:
    magnitude = abs(value)
    if value == 0:
        return "0"
    if magnitude < 0.001 or magnitude >= 1e15:
        digits, _, power = f"{value:.2e}".partition("e")
        return f"{float(digits):g}e{int(power)}".replace("-", "−")
    for scale, letter in SCALES:
        if magnitude >= scale * 0.9995:
            return _three_digits(value / scale) + letter
    return _three_digits(value)


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    places = 0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2 if magnitude >= 0.9995 else 3
    text = f"{value:.{places}f}"
    if value == int(value):
        text = f"{int(value)}"  # 4, not 4.00: whole numbers are shown whole
    return text.replace("-", "−")

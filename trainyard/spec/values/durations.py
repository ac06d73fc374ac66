"""Lengths of time as people write them in a spec: ``90s``, ``45m``, ``2h``, ``1h30m``, ``7d``, or plain seconds."""

import re

from trainyard.contract.base import SpecDocument
from trainyard.spec.problems import show

UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
DEFAULT_GRACE_S = 30.0
DEFAULT_IDLE_S = 3600.0  # of a notebook
OLD_GRACE_S = 5.0  # of a spec from before there was a field for it
LONGEST_TIME_S = 365 * 86_400
LONGEST_GRACE_S = 3_600
LONGEST_PAUSE_S = 300  # between two restarts
SHORTEST_LEASE_S = 10

_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,3})?)s?)?")


def seconds_of(text: str) -> float:
    """Return the seconds of a duration. Raises ValueError for what is none."""
    found = _DURATION.fullmatch(text.replace(" ", "")) if text else None
    if found is None or not any(found.groups()):
        raise ValueError(f"must be a length of time such as 90s, 45m, 2h or 1h30m, not {show(text)}")
    return float(sum(float(number or 0) * unit for number, unit in zip(found.groups(), UNITS.values(), strict=True)))


def duration(seconds: float) -> str:
    """Return the seconds as a spec has them: ``1h30m``, ``60s``, ``2.5s``."""
    if seconds != int(seconds):
        return f"{seconds:.3f}".rstrip("0") + "s"
    if seconds < 120:
        return f"{seconds:.0f}s"
    words, left = "", int(seconds)
    for name, unit in UNITS.items():
        if left >= unit:
            words += f"{left // unit}{name}"
            left %= unit
    return words


def words_of(seconds: float) -> str:
    """Return the seconds as a sentence has them: ``2 h``, ``1 h 30 min``, ``60 s``, ``2.5 s``."""
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    spaced = re.sub(r"(\d+)([dhms])", r"\1 \2 ", duration(round(seconds))).strip()
    return re.sub(r"\bm\b", "min", spaced)


def time_limit_s(spec: SpecDocument) -> float | None:
    """Return after how many seconds a run of the resolved spec is stopped; None where it may go on for ever."""
    text = (spec.get("limits") or {}).get("time")
    return seconds_of(text) if text else None


def grace_s(spec: SpecDocument) -> float:
    """Return how many seconds the ranks of the resolved spec have to save and end once they are asked to."""
    text = (spec.get("limits") or {}).get("grace")
    return seconds_of(text) if text else OLD_GRACE_S

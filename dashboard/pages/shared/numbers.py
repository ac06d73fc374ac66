"""Figures as pages and templates write them. Most are of ``trainyard.formats.figures``; ages need a clock."""

import json
from datetime import UTC, datetime

from django.utils.safestring import SafeString, mark_safe

from trainyard.formats.figures import count, duration, metric, number, percent, seconds, size, speed

__all__ = ["age", "clock", "count", "duration", "metric", "number", "percent", "seconds", "setting"]
__all__ += ["size", "speed"]


def setting(value: object) -> str:
    """A value of a field of a spec: a number as a figure, a text as it is, anything else as JSON."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return value if isinstance(value, str) else json.dumps(value)


def age(at: datetime, now: datetime) -> str:
    """``4 min ago``, ``in 2 h``, ``just now``: one unit, because the exact time is on hover."""
    seconds_ago = (now - at).total_seconds()
    span = abs(seconds_ago)
    if span < 5:
        return "just now"
    unit, name = next(one for one in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")) if span >= one[0])
    text = f"{int(span // unit)} {name}"
    return f"{text} ago" if seconds_ago > 0 else f"in {text}"


def clock(at: float) -> SafeString:
    """A time of day in UTC, of Unix seconds; ages.js makes it the reader's."""
    exact = datetime.fromtimestamp(at, UTC)
    return mark_safe(f'<time data-clock="{at:.0f}" title="{exact:%d %b %Y, %H:%M:%S} UTC">{exact:%H:%M}</time>')

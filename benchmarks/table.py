"""What a benchmark says: rows, each a figure of ours beside a peer's or a limit's from the same run, and the table.

A benchmark is a module ``bench_<name>.py`` with ``rows() -> list[Row]``. The runner (``benchmarks.__main__``) calls it
in a process of its own, gets the rows back as JSON, prints them and keeps them in RESULTS.md.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

AT_MOST = "<="
AT_LEAST = ">="


def scale() -> float:
    """How much of the full work is done: 1 unless BENCH_SCALE says less, for a quick look at whether all works."""
    return min(1.0, max(0.001, float(os.environ.get("BENCH_SCALE") or 1)))


def scaled(count: int, least: int = 1) -> int:
    return max(least, int(count * scale()))


@dataclass(frozen=True)
class Goal:
    """A bound on the figure itself (``of`` is "ours") or on the ratio (``of`` is "ratio")."""

    sign: str  # AT_MOST or AT_LEAST
    bound: float
    of: str = "ours"

    def is_met(self, ours: float, ratio: float | None) -> bool:
        value = ratio if self.of == "ratio" else ours
        if value is None or math.isnan(value):
            return False
        return value <= self.bound if self.sign == AT_MOST else value >= self.bound


@dataclass(frozen=True)
class Row:
    """One line of the table. ``ours`` and ``theirs`` have the same unit, and were measured in the same run.

    ``ours`` is None where it could not be measured; ``note`` says why. ``samples`` (of ours) are what the spread is
    taken from; ``others`` are further figures of the same kind by name, None for a peer that was not measured.
    """

    what: str
    ours: float | None
    unit: str
    theirs: float | None
    against: str  # whose figure `theirs` is
    is_less_better: bool = True
    goal: Goal | None = None
    spread: tuple[float, float] | None = None
    others: dict[str, float | None] = field(default_factory=dict)
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times better ours is: above 1 is better, whichever way the unit points."""
        if not self.ours or not self.theirs:
            return None
        return self.theirs / self.ours if self.is_less_better else self.ours / self.theirs

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None where there is none, False where nothing was measured."""
        if self.goal is None:
            return None
        return self.ours is not None and self.goal.is_met(self.ours, self.ratio)


def spread_of(samples: Sequence[float]) -> tuple[float, float]:
    return min(samples), max(samples)


def middle(samples: Iterable[float]) -> float:
    return statistics.median(samples)


def dumps(rows: Iterable[Row]) -> str:
    return json.dumps([asdict(row) for row in rows])


def loads(text: str) -> list[Row]:
    rows = []
    for item in json.loads(text):
        goal = Goal(**item.pop("goal")) if item.get("goal") else None
        span = tuple(item.pop("spread")) if item.get("spread") else None
        rows.append(Row(**{**item, "goal": goal, "spread": span}))
    return rows


# How numbers look. People compare them by eye: three digits, and thousands apart.

HEAD = ("what", "ours", "spread", "goal", "met", "against", "theirs", "times better", "others", "note")


def number(value: float | None) -> str:
    """Three digits that matter: 4.61, 52.3, 4,610,000."""
    if value is None:
        return "not measured"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.0f}" if digits <= 0 else f"{rounded:,.{digits}f}"


def goal_text(row: Row) -> str:
    if row.goal is None:
        return ""
    unit = "times" if row.goal.of == "ratio" else row.unit
    return f"{row.goal.sign} {number(row.goal.bound)} {unit}"


def cells(row: Row) -> list[str]:
    """The row as texts, in the order of HEAD."""
    return [
        row.what,
        f"{number(row.ours)} {row.unit}" if row.ours is not None else "not measured",
        f"{number(row.spread[0])} to {number(row.spread[1])}" if row.spread else "",
        goal_text(row),
        {True: "yes", False: "**no**", None: ""}[row.is_met],
        row.against,
        f"{number(row.theirs)} {row.unit}" if row.theirs is not None else "not measured",
        number(row.ratio) if row.ratio is not None else "",
        "; ".join(f"{name} {number(value)}" for name, value in row.others.items()),
        row.note,
    ]


def line(texts: Iterable[str]) -> str:
    """One line of a table in Markdown."""
    return "| " + " | ".join(text.replace("|", "/").replace("\n", " ") for text in texts) + " |"

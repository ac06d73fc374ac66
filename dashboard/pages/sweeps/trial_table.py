"""Trials in the table of a sweep: brushed ranges, a state and an order, all of it in the address."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import F
from django.http import QueryDict

from runs.models import Sweep, Trial
from runs.sweeps.analysis.trials import is_number, text_of
from runs.sweeps.reading import TrialPoint, trial_points
from trainyard.contract.statuses import TrialState

MAX_BRUSHES = 40
NEWEST, OLDEST = "-number", "number"
VALUE = "value"  # the axis of an objective is this, a colon and its place


class Brush(NamedTuple):
    """Filter on one axis: ranges of numbers, or texts. ``axis`` is a path of the space, or an objective's."""

    axis: str
    ranges: tuple[tuple[float, float], ...] = ()
    texts: tuple[str, ...] = ()

    def admits(self, value: object) -> bool:
        if self.texts:
            return value is not None and text_of(value) in self.texts
        return is_number(value) and any(low <= value <= high for low, high in self.ranges)


class Asked(NamedTuple):
    brushes: list[Brush]
    state: str

    @property
    def query(self) -> dict[str, str | list[str]]:
        """What the address says of it."""
        return {"brush": [text for one in self.brushes for text in _texts(one)], "state": self.state}


def asked_of(query: QueryDict) -> Asked:
    """``brush`` is ``axis|low..high`` or ``axis=text``; what reads as neither is left out: a link may be old."""
    found: dict[str, Brush] = {}
    for text in query.getlist("brush")[:MAX_BRUSHES]:
        axis, ranges, texts = _read(text[:300])
        if axis:
            before = found.get(axis, Brush(axis))
            found[axis] = Brush(axis, (*before.ranges, *ranges), (*before.texts, *texts))
    state = query.get("state", "").upper()
    return Asked(list(found.values()), state if state in set(TrialState) else "")


def numbers_of(sweep: Sweep, asked: Asked, sorts: Sequence[str]) -> list[int]:
    """Return the numbers of the trials that are asked for, in their order: by the database, unless what they have in
    their parameters decides."""
    order = _columns(sorts, sweep)
    if asked.brushes or order is None:
        points = trial_points(sweep, state=asked.state)
        found = [one for one in points if all(brush.admits(axis_value(one, brush.axis)) for brush in asked.brushes)]
        for sort in (NEWEST, *reversed(sorts)):
            found = ordered(found, sort)
        return [one.number for one in found]
    rows = Trial.objects.filter(sweep=sweep, **({"state": asked.state} if asked.state else {}))
    return list(rows.order_by(*order).values_list("number", flat=True))


def _columns(sorts: Sequence[str], sweep: Sweep) -> list[Any] | None:
    """Return the order as columns; None where it is one of parameters, or of several objectives."""
    if sorts in ([NEWEST], [OLDEST]):
        return [*sorts]
    if len(sorts) > 1 or sorts[0].removeprefix("-") != f"{VALUE}:0" or sweep.parsed.is_multiple:
        return None
    value = F("value").desc(nulls_last=True) if sorts[0].startswith("-") else F("value").asc(nulls_last=True)
    return [value, NEWEST]


def ordered(rows: Sequence[TrialPoint], sort: str) -> list[TrialPoint]:
    """Sort by number, by an objective, or by a field of the space. Trials without a value there come last, and what is
    equal stays in its order."""
    is_falling, axis = sort.startswith("-"), sort.removeprefix("-")
    if axis == OLDEST:
        return sorted(rows, key=lambda one: one.number, reverse=is_falling)
    known = [(_order(value), one) for one in rows if (value := axis_value(one, axis)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=is_falling)
    there = {one.number for _, one in known}
    return [*(one for _, one in known), *(one for one in rows if one.number not in there)]


def axis_value(trial: TrialPoint, axis: str) -> object:
    """Return the trial's value on an axis of the charts; None where it has no number there."""
    name, _, place = axis.partition(":")
    if name != VALUE or not place.isdecimal():
        return trial.parameters.get(axis)
    value = trial.values[int(place)] if int(place) < len(trial.values) else None
    return value if is_number(value) else None


def _order(value: object) -> tuple[int, float, str]:
    return (0, float(value), "") if is_number(value) else (1, 0.0, text_of(value))


def _read(text: str) -> tuple[str, list[tuple[float, float]], list[str]]:
    axis, is_text, value = text.partition("=")
    if is_text:
        return axis, [], [value]
    axis, _, rest = text.rpartition("|")
    low, _, high = rest.partition("..")
    try:
        ends = float(low), float(high)
    except ValueError:
        return "", [], []
    return (axis, [ends], []) if all(map(math.isfinite, ends)) else ("", [], [])


def _texts(brush: Brush) -> list[str]:
    return [
        *(f"{brush.axis}|{low:.12g}..{high:.12g}" for low, high in brush.ranges),
        *(f"{brush.axis}={text}" for text in brush.texts),
    ]


def brush_words(brush: Brush, labels: Mapping[str, str]) -> str:
    """The brush as a chip names it."""
    ranges = [f"{low:.3g} to {high:.3g}" for low, high in brush.ranges]
    return f"{labels.get(brush.axis, brush.axis)}: {', '.join([*ranges, *brush.texts])}"

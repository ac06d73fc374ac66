"""Trials as the analysis reads them, and the fields of a space as it sees them."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeGuard

from trainyard.spec.sweeps import Dimension

NUMBERS = (int, float)  # a union would be made anew at each look, of which there are many
COMPLETE, PRUNED, RUNNING = "COMPLETE", "PRUNED", "RUNNING"
MINIMIZE, MAXIMIZE = "minimize", "maximize"


class TrialLike(Protocol):
    """A trial, as ``runs.sweeps.reading.TrialRow`` has it. ``steps`` are those that it did; ``rank_seconds`` the time
    that its ranks held slots."""

    @property
    def number(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def value(self) -> float | None: ...
    @property
    def values(self) -> Sequence[float]: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def started_at(self) -> datetime | None: ...
    @property
    def ended_at(self) -> datetime | None: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def rank_seconds(self) -> float: ...


class SpaceField(NamedTuple):
    """A field that varies: a range of numbers, or ``choices`` as texts."""

    path: str
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_whole: bool = False
    choices: tuple[str, ...] = ()

    @property
    def is_choice(self) -> bool:
        return bool(self.choices)


def complete(trials: Iterable[TrialLike]) -> list[TrialLike]:
    """The trials that reached their end with a number as value."""
    return [one for one in trials if one.state == COMPLETE and one.value is not None and math.isfinite(one.value)]


def fields_of(space: Mapping[str, Dimension]) -> list[SpaceField]:
    """The space of a sweep as its analysis sees it."""
    return [
        SpaceField(path, choices=tuple(map(text_of, one.values)))
        if one.values is not None
        else SpaceField(path, *one.bounds, is_log=one.log, is_whole=one.whole)
        for path, one in space.items()
    ]


def text_of(value: object) -> str:
    """A value as people read it, and as one that is not a number is told from others."""
    return value if isinstance(value, str) else json.dumps(value)


def is_better(one: float, other: float, direction: str) -> bool:
    return one > other if direction == MAXIMIZE else one < other


def with_seen(field: SpaceField, trials: Iterable[TrialLike]) -> SpaceField:
    """The field, wide enough for every value that a trial had: one added by hand may lie outside of the space, and
    a space that was changed no longer names what it had before."""
    seen = [one.parameters[field.path] for one in trials if field.path in one.parameters]
    if field.is_choice:
        return field._replace(choices=tuple(dict.fromkeys((*field.choices, *map(text_of, seen)))))
    numbers = [one for one in seen if is_number(one)]
    return field._replace(low=float(min([field.low, *numbers])), high=float(max([field.high, *numbers])))


def is_number(value: object) -> TypeGuard[float]:
    kind = type(value)  # nearly always one of these: a long sweep has a hundred thousand values
    if kind is float or kind is int:
        return math.isfinite(value)  # type: ignore[arg-type]
    return isinstance(value, NUMBERS) and not isinstance(value, bool) and math.isfinite(value)

"""Points as they are compared: to the bit, and how often each of them is there."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

ANY_ATTEMPT = -1  # of points that came over REST: the answer does not name it
COLUMNS = ("step", "time", "value")
Row = tuple[int, int, int]  # step, and the bits of time and value


class SeriesKey(NamedTuple):
    run: str
    attempt: int
    name: str
    labels: str  # JSON


Points = dict[SeriesKey, Counter[Row]]


class Difference(NamedTuple):
    """How many points are missing, and how many are there that should not be, or not so often."""

    num_expected: int
    num_lost: int
    num_doubled: int

    def __str__(self) -> str:
        return f"{self.num_expected} points, {self.num_lost} lost, {self.num_doubled} doubled"


def key_of(run: str, attempt: int, name: str, labels: Mapping[str, str]) -> SeriesKey:
    return SeriesKey(run, attempt, name, json.dumps(labels, sort_keys=True))


def rows(steps: ArrayLike, times: ArrayLike, values: ArrayLike) -> Counter[Row]:
    """Count equally long columns. A NaN is one NaN, whatever its payload; zeros differ by their sign."""
    columns = (np.asarray(steps, np.int64), bits(times), bits(values))
    assert len({column.size for column in columns}) == 1
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def bits(numbers: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    floats = np.array(numbers, np.float64)
    floats[np.isnan(floats)] = math.nan
    return floats.view(np.int64)


def gathered(parts: Iterable[tuple[SeriesKey, Counter[Row]]]) -> Points:
    found: Points = {}
    for key, counted in parts:
        found.setdefault(key, Counter()).update(counted)
    return found


def difference(expected: Points, stored: Points) -> Difference:
    lost = doubled = 0
    for key in expected.keys() | stored.keys():
        wanted, got = expected.get(key, Counter()), stored.get(key, Counter())
        lost += (wanted - got).total()
        doubled += (got - wanted).total()
    return Difference(sum(counted.total() for counted in expected.values()), lost, doubled)


def stored_points(run: str) -> Points:
    """Everything of the run that lies in this process's store, also what a newer attempt hides."""
    from runs.records.points.charts.series import raw

    return gathered(
        (key_of(run, curve.attempt, curve.name, curve.labels), rows(*(curve.columns[kind] for kind in COLUMNS)))
        for curve in raw(run, attempts="all")
    )


def stored_values(run: str) -> dict[str, list[tuple[int, float, float]]]:
    """Steps, times and values of each series, and that none is there twice."""
    found = {}
    for key, counted in stored_points(run).items():
        assert set(counted.values()) == {1}
        found[key.name] = sorted(struct.unpack("<qdd", struct.pack("<qqq", *row)) for row in counted)
    return found  # type: ignore[return-value]

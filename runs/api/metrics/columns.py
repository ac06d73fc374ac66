"""Answers about series in their two forms: JSON, and little-endian columns that need no parsing (docs/rest.md)."""

import json
import struct
import sys
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from runs.records.points.read import Curve

CONTENT_TYPE = "application/vnd.trainyard.columns"
MAGIC = b"TYCO"
VERSION = 1
PREFIX = struct.Struct("<4sII")  # magic, version, length of the header
ALIGNED = 8
EXACT = 2**53  # up to here a float64 holds every integer


class SeriesHead(TypedDict, total=False):
    """Fields before the series: the cursor (of each run), and when time began where it is relative."""

    cursor: int
    cursors: dict[str, int]
    origin: float | None
    origins: dict[str, float]


class Described(TypedDict, total=False):
    """Fields beside the columns of a curve."""

    run: str  # in an answer about several
    name: str
    labels: dict[str, str]
    attempt: int
    kind: str
    superseded: bool


class ColumnPlace(TypedDict):
    """Position of a column."""

    dtype: str
    offset: int
    length: int


def as_json(head: SeriesHead, curves: Sequence[Curve], *, is_many: bool) -> bytes:
    """Return the answer as JSON. ``head`` is what stands before the series.

    pydantic writes a float in the fewest digits that read back as the same, as json.dumps does, in an eighth of the
    time; series by series, so that the numbers of only one are Python's at a time.
    """
    parts = [
        to_json(
            {**described(curve, is_many), **{name: column.tolist() for name, column in curve.columns.items()}},
            inf_nan_mode="strings",
        )
        for curve in curves
    ]
    return b"".join((to_json(head)[:-1], b',"series":[', b",".join(parts), b"]}"))


def as_columns(head: SeriesHead, curves: Sequence[Curve], *, is_many: bool) -> bytes:
    """Return the answer as magic, version, JSON header and columns; one that several series share is there once."""
    layout = _Layout()
    series = [
        {**described(curve, is_many), "columns": {name: layout.place(column) for name, column in curve.columns.items()}}
        for curve in curves
    ]
    header = json.dumps({**head, "series": series}, separators=(",", ":")).encode()
    header += b" " * (-(PREFIX.size + len(header)) % ALIGNED)
    return b"".join((PREFIX.pack(MAGIC, VERSION, len(header)), header, *(column.data for column in layout.columns)))


def described(curve: Curve, is_many: bool) -> Described:
    known: Described = {"name": curve.name, "labels": curve.labels, "attempt": curve.attempt, "kind": curve.kind}
    if curve.is_superseded:
        known["superseded"] = True
    return {"run": curve.run_id, **known} if is_many else known


class _Layout:
    """Positions of the columns, counted from the end of the header."""

    def __init__(self) -> None:
        self.columns: list[NDArray[Any]] = []
        self._places: dict[int, ColumnPlace] = {}
        self._seen: list[NDArray[Any]] = []  # held, so that no other column gets the id of one that is gone
        self._size = 0

    def place(self, column: NDArray[Any]) -> ColumnPlace:
        known = self._places.get(id(column))
        if known is not None:
            return known
        wire = _wire(column)
        dtype = "<i8" if wire.dtype.kind == "i" else "<f8"
        place: ColumnPlace = {"dtype": dtype, "offset": self._size, "length": wire.size}
        self._size += wire.nbytes
        self.columns.append(wire)
        self._seen.append(column)
        self._places[id(column)] = place
        return place


def _wire(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers travel as float64, which JavaScript draws without a conversion, where it holds each of them."""
    if column.dtype.kind == "i" and (column.size == 0 or (column.min() >= -EXACT and column.max() <= EXACT)):
        column = column.astype(np.float64)
    wire = np.ascontiguousarray(column)
    return wire if sys.byteorder == "little" else wire.astype(wire.dtype.newbyteorder("<"))

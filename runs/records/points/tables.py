"""Points of several series that share their steps and times: what one way of calling ``log`` brings. Pure.

Ten metrics of a call travel, are folded, encoded and stored together; nothing here looks at a single point.
"""

import json
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from runs.records.metrics.codec import Columns, Floats, Steps
from trainyard.grouping import grouped

Key = tuple[str, str]  # name, labels as canonical JSON


def labels_key(labels: dict[str, str]) -> str:
    return json.dumps(labels, sort_keys=True, separators=(",", ":")) if labels else "{}"


class SeriesGroup:
    """The series of a matrix: different names, one set of labels. Two groups are the same only as the same object."""

    __slots__ = ("keys", "labels", "labels_key", "names")

    def __init__(self, names: tuple[str, ...], labels: dict[str, str]) -> None:
        self.names, self.labels = names, labels
        self.labels_key = labels_key(labels)
        self.keys: tuple[Key, ...] = tuple((name, self.labels_key) for name in names)


class Rows(NamedTuple):
    """Points as they travel, packed: n steps, n times, and n rows of as many values as the head has names."""

    head: SeriesGroup
    steps: bytes
    times: bytes
    values: bytes


class SeriesPiece(NamedTuple):
    """The points of one series in one frame, or in several of one producer, merged (sequence: the first)."""

    producer: str
    sequence: int
    name: str
    labels: dict[str, str]
    columns: Columns

    @property
    def key(self) -> Key:
        return self.name, labels_key(self.labels)


class PointMatrix(NamedTuple):
    """n points of each of m series of one producer; ``values`` is m x n, a series a row."""

    producer: str
    sequence: int
    head: SeriesGroup
    steps: Steps
    times: Floats
    values: Floats

    @property
    def num_points(self) -> int:
        return self.values.size

    def pieces(self) -> list[SeriesPiece]:
        return [
            SeriesPiece(self.producer, self.sequence, name, self.head.labels, Columns(self.steps, self.times, values))
            for name, values in zip(self.head.names, self.values, strict=True)
        ]

    def only(self, places: Sequence[int]) -> "PointMatrix":
        head = SeriesGroup(tuple(self.head.names[place] for place in places), self.head.labels)
        return PointMatrix(self.producer, self.sequence, head, self.steps, self.times, self.values[list(places)])


Part = tuple[int, int, Rows]  # when it came, the sequence of its frame, and what it brought


def merged(arrived: Iterable[tuple[str, int, Rows]]) -> list[PointMatrix]:
    """Return what came (producer, sequence, rows) as few matrices, in which each series of a producer lies once, its
    points in order of arrival: what storing costs is mostly per matrix and per series, not per point."""
    by_producer: dict[str, dict[SeriesGroup, list[Part]]] = {}
    for number, (producer, sequence, rows) in enumerate(arrived):
        if rows.steps:
            by_producer.setdefault(producer, {}).setdefault(rows.head, []).append((number, sequence, rows))
    return [matrix for producer, by_head in by_producer.items() for matrix in _matrices(producer, by_head)]


def _matrices(producer: str, by_head: dict[SeriesGroup, list[Part]]) -> list[PointMatrix]:
    if len(by_head) == 1:
        [(head, parts)] = by_head.items()
        return [_matrix(producer, head, parts)]
    # A series may be logged in several ways, with others and without. The series that occur in the same heads go
    # together, so that each has one order.
    occurs = grouped((key, head) for head in by_head for key in head.keys)
    together = grouped((tuple(heads), key) for key, heads in occurs.items())
    return [
        _matrix(producer, where[0], by_head[where[0]])
        if len(where) == 1 and len(keys) == len(where[0].keys)
        else _mixed(producer, keys, {head: by_head[head] for head in where})
        for where, keys in together.items()
    ]


def _matrix(producer: str, head: SeriesGroup, parts: list[Part]) -> PointMatrix:
    """Return the rows of one head."""
    steps, times = _axis(parts)
    values = np.frombuffer(b"".join([rows.values for _, _, rows in parts]), "<f8")
    values = np.ascontiguousarray(values.reshape(steps.size, len(head.names)).T)
    return PointMatrix(producer, parts[0][1], head, steps, times, values)


def _mixed(producer: str, keys: list[Key], by_head: dict[SeriesGroup, list[Part]]) -> PointMatrix:
    """Return the rows of several heads, as far as they are of these series, which all of them have."""
    parts = sorted((part for some in by_head.values() for part in some), key=itemgetter(0))
    places = {head: _places(head, keys) for head in by_head}
    steps, times = _axis(parts)
    blocks = [
        np.frombuffer(rows.values, "<f8").reshape(-1, len(rows.head.names))[:, places[rows.head]]
        for _, _, rows in parts
    ]
    head = SeriesGroup(tuple(name for name, _ in keys), parts[0][2].head.labels)
    return PointMatrix(producer, parts[0][1], head, steps, times, np.ascontiguousarray(np.concatenate(blocks).T))


def _places(head: SeriesGroup, keys: list[Key]) -> list[int]:
    place_of = {key: place for place, key in enumerate(head.keys)}
    return [place_of[key] for key in keys]


def _axis(parts: list[Part]) -> tuple[Steps, Floats]:
    steps = np.frombuffer(b"".join([rows.steps for _, _, rows in parts]), "<i8")
    return steps, np.frombuffer(b"".join([rows.times for _, _, rows in parts]), "<f8")

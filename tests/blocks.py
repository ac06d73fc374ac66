"""Blocks as ingest writes them, from the points of single series."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from runs.records.points.blocks import Part, encode_block
from runs.records.points.tables import PointMatrix, SeriesGroup


def block_of(parts: list[Part]) -> bytes:
    """Return the parts as a block. Neighbours whose steps and times are the same objects share an axis."""
    matrices = []
    for _, group in groupby(parts, key=lambda part: (id(part[1].steps), id(part[1].times))):
        own = list(group)
        head = SeriesGroup(tuple(str(series_id) for series_id, _ in own), {})
        values = np.stack([columns.values for _, columns in own])
        matrices.append(([pk for pk, _ in own], PointMatrix("", 0, head, own[0][1].steps, own[0][1].times, values)))
    return encode_block(matrices)

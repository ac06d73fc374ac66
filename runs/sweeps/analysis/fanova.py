"""Functional analysis of variance on the trees of a random forest (Hutter, Hoos, Leyton-Brown 2014, section 4).

A tree is constant on boxes. The variance over its whole domain splits into what each field explains alone and what is
left for their interactions; the spread over the trees is the error. Optuna's evaluator computes the same numbers and
returns their mean alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from runs.sweeps.analysis.encoding import Array


class Boxes(NamedTuple):
    """The leaves of a tree: ``low`` and ``high`` have a row for each leaf and a column for each field."""

    low: Array
    high: Array
    values: Array


def boxes_of(tree: Any, widths: Array) -> Boxes:
    """``tree`` is the ``tree_`` of scikit-learn, which lists a node before those below it."""
    num = tree.node_count
    low = np.zeros((num, len(widths)))
    high = np.tile(widths, (num, 1))
    left, right, field, threshold = tree.children_left, tree.children_right, tree.feature, tree.threshold
    for node in np.flatnonzero(left >= 0):
        for child in (left[node], right[node]):
            low[child], high[child] = low[node], high[node]
        high[left[node], field[node]] = low[right[node], field[node]] = threshold[node]
    leaves: npt.NDArray[np.bool_] = left < 0
    return Boxes(low[leaves], high[leaves], tree.value[leaves].reshape(-1))


def shares(boxes: Boxes, widths: Array) -> Array | None:
    """Return which share of the tree's variance each field explains alone; None for a tree that is constant."""
    sizes = (boxes.high - boxes.low) / widths
    volumes = sizes.prod(axis=1)
    mean = float(volumes @ boxes.values)
    variance = float(volumes @ (boxes.values - mean) ** 2)
    if variance <= 1e-12 * max(1.0, mean * mean):
        return None
    alone = [_variance_alone(boxes, sizes, volumes, mean, field, widths[field]) for field in range(len(widths))]
    return np.array(alone) / variance


def _variance_alone(boxes: Boxes, sizes: Array, volumes: Array, mean: float, field: int, width: float) -> float:
    """The variance of the tree's mean over all other fields, as a function of this one."""
    edges = np.unique(np.concatenate((boxes.low[:, field], boxes.high[:, field])))
    middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / width
    # A leaf's volume without this field, times its value: what it adds to the mean wherever it reaches.
    weights = boxes.values * volumes / np.maximum(sizes[:, field], 1e-300)
    covers = (boxes.low[None, :, field] < middles[:, None]) & (middles[:, None] < boxes.high[None, :, field])
    means = covers @ weights
    return float(lengths @ (means - mean) ** 2)

"""Histograms with edges of their own, laid over each other on common ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from runs.metrics.codec import Floats

MAX_COMMON_BINS = 128


class Histogram(NamedTuple):
    """n + 1 edges that grow, and n counts."""

    edges: Floats
    counts: Floats


def rebinned(histograms: Sequence[Histogram]) -> tuple[Floats, list[Floats]]:
    """Return common edges of equal bins over all of them, and the counts of each on these.

    A count is taken to be spread evenly over its bin, so the sum of each histogram's counts stays what it was.
    """
    if not histograms:
        return np.empty(0), []
    telling = [one for one in histograms if one.counts.any()] or histograms  # where all was NaN the edges mean nothing
    low = min(float(one.edges[0]) for one in telling)
    high = max(float(one.edges[-1]) for one in telling)
    bins = min(MAX_COMMON_BINS, max(one.counts.size for one in histograms))
    edges = np.linspace(low, high, bins + 1)
    return edges, [_on(edges, one) for one in histograms]


def _on(edges: Floats, histogram: Histogram) -> Floats:
    below = np.concatenate(([0.0], np.cumsum(histogram.counts)))
    counts: Floats = np.diff(np.interp(edges, histogram.edges, below))
    return np.maximum(counts, 0.0)  # a sum of many counts rounds

"""Histograms in the SDK: they count each value, with NumPy and without it."""

from __future__ import annotations

import math
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainyard
from tests.trainyard.media_records import logged
from trainyard.formats import arrays


@pytest.mark.parametrize("has_numpy", [True, False])
@pytest.mark.parametrize(
    "values",
    [[0.0], [7.0] * 3, [1e-8] * 2, [1.0, 1.0 + 1e-16], [0.0, 5e-324], [-1e299, 1e299], [1, 2, 3, 1000], [True, False],
     [math.nan, 1.0, math.inf, -math.inf, 2.0], [1e17, 1e17 + 16]],
    ids=str,
)  # fmt: skip
def test_any_values_have_a_histogram_that_counts_each_of_them(
    values: list[float], has_numpy: bool, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_numpy:
        monkeypatch.setattr("trainyard.formats.media.numpy_or_none", lambda: None)
        monkeypatch.setattr("trainyard.formats.arrays.numpy_or_none", lambda: None)
    payload = logged(spool, trainyard.Histogram(values, bins=8))
    numbers = array("d", payload["data"])
    edges, counts = numbers[:9], numbers[9:]
    finite = [value for value in values if math.isfinite(value)]
    assert sum(counts) == len(finite)
    assert payload["meta"].get("num_not_finite", 0) == len(values) - len(finite)
    assert edges[0] <= min(finite) and max(finite) <= edges[-1]


def test_with_numpy_and_without_it_histograms_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(0, 1, 5_000)
    by_numpy = arrays.binned(values, 50)
    monkeypatch.setattr("trainyard.formats.arrays.numpy_or_none", lambda: None)
    plain = arrays.binned(values.tolist(), 50)
    assert np.abs(np.array(by_numpy.counts) - np.array(plain.counts)).sum() <= 4  # what lies on an edge
    assert np.allclose(by_numpy.edges, plain.edges)


def test_many_values_are_counted_at_once_and_not_held(spool: Path) -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(5_000_000, dtype=torch.float32)
    histogram = trainyard.Histogram(values)
    assert histogram.num_bytes < 10_000
    payload = logged(spool, histogram)
    assert array("d", payload["data"])[65:].tolist() == [78_125.0] * 64


@pytest.mark.parametrize("values", [[], [math.nan] * 3, np.full((2, 2), np.inf)], ids=str)
def test_where_no_value_is_finite_the_histogram_says_so(values: Any, spool: Path) -> None:
    payload = logged(spool, trainyard.Histogram(values))
    assert sum(array("d", payload["data"])[65:]) == 0
    assert payload["meta"] == {"bins": 64} | ({"num_not_finite": np.size(values)} if np.size(values) else {})


def test_a_histogram_may_be_given_as_it_is(spool: Path) -> None:
    payload = logged(spool, trainyard.Histogram(counts=np.array([1, 2]), edges=[0, 1, 4]))
    assert array("d", payload["data"]).tolist() == [0.0, 1.0, 4.0, 1.0, 2.0]

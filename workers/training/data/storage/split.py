"""Rows that validate: one of every ten of a class, at a place in the ten that a hash of the ten's number gives.

So each class has its tenth, whatever order the rows are in, and neither the rows nor the choice are kept in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ONE_OF = 10

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Split:
    """Chooses among rows that come block by block. ``class_counts`` says how many of each class there will be."""

    def __init__(self, class_counts: Sequence[int]) -> None:
        self._seen = np.zeros(len(class_counts), np.int64)
        # A class of fewer than ten gives one all the same, unless it is the only one of its class.
        sizes = np.asarray(class_counts, np.int64)
        self._first_tens = np.where(sizes < ONE_OF, np.maximum(sizes, 1), ONE_OF)
        self._sizes = sizes

    def validates(self, classes: Numbers) -> Mask:
        """Say of each of the next rows, given the numbers of their classes, whether it validates."""
        order = np.argsort(classes, kind="stable")
        ordered = classes[order]
        firsts = np.searchsorted(ordered, ordered, side="left")
        nth = np.empty_like(classes)
        nth[order] = np.arange(len(classes)) - firsts
        nth += self._seen[classes]
        self._seen += np.bincount(classes, minlength=len(self._seen))
        tens, places = np.divmod(nth, ONE_OF)
        chosen = mixed(classes.astype(np.uint64) << np.uint64(40) ^ tens.astype(np.uint64))
        sizes = np.where(tens == 0, self._first_tens[classes], ONE_OF).astype(np.uint64)
        found: Mask = (places.astype(np.uint64) == chosen % sizes) & (self._sizes[classes] > 1)
        return found


def mixed(words: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return a hash of each word: the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))

"""The order in which rows are seen: each exactly once an epoch, whoever asks for which of them.

A place in the training (samples since its very first step) gives the row, with nothing to carry along: a restart goes
on where it was, and any number of ranks cut the same sequence. The order of an epoch is a permutation that is computed
for the places that are asked for: a generalised Feistel network over a rectangle of rows and columns that is hardly
larger than the number of rows, walked until it lands on one (Black and Rogaway 2002, "Ciphers with Arbitrary Finite
Domains", sections 4 and 5). Its round functions are tables as long as a side of the rectangle: together 1.5 MB for a
billion rows. Few rows are sorted by words that look random, which costs less than to walk.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

Rows = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

NUM_ROUNDS = 6
FEW_ROWS = 8_192  # of which an epoch's order is computed at once: a batch of 32 then costs 2 us and not 10
ROW_BITS = np.uint64(FEW_ROWS - 1)
Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets


@dataclass(frozen=True, slots=True)
class Epoch:
    """The round functions of an epoch: what is added to the row by the column, and to the column by the row. Of few
    rows the order itself in their place."""

    number: int
    rounds: tuple[tuple[Rows, Rows], ...]
    order: Rows | None = None


class EpochOrder:
    """All of ``num_rows`` rows once in each epoch, every epoch in another order. Raises ValueError without rows.

    Several threads may ask at once.
    """

    def __init__(self, num_rows: int, seed: int) -> None:
        if num_rows < 1:
            raise ValueError(f"there are {num_rows} rows; an order needs one or more")
        self.num_rows, self._seed = num_rows, seed
        self._height = math.isqrt(num_rows - 1) + 1  # its square is num_rows or more
        self._width = -(-num_rows // self._height)
        self._epoch = self._make_epoch(0)

    def rows(self, positions: slice | Rows) -> Rows:
        """Return which rows stand at these positions, int64; positions count from 0 over all epochs."""
        if not isinstance(positions, slice):
            return self._scattered(positions)
        start, stop = positions.start, positions.stop
        first, place = divmod(start, self.num_rows)
        if place + stop - start <= self.num_rows:
            epoch = self._epoch_of(first)
            if epoch.order is not None:
                return epoch.order[place : place + stop - start]
            return self._permuted(np.arange(place, place + stop - start), epoch)
        ends = [start, *range((first + 1) * self.num_rows, stop, self.num_rows), stop]
        return np.concatenate([self.rows(slice(*pair)) for pair in pairwise(ends)])

    def _scattered(self, positions: Rows) -> Rows:
        """``positions`` rise, so those of an epoch lie together."""
        first, last = int(positions[0]) // self.num_rows, int(positions[-1]) // self.num_rows
        if self.num_rows <= FEW_ROWS:
            return self._orders(range(first, last + 1)).reshape(-1).take(positions - first * self.num_rows)
        epochs, places = np.divmod(positions, self.num_rows)
        found = np.empty_like(places)
        for number in range(first, last + 1):
            inside = slice(*np.searchsorted(epochs, (number, number + 1)))
            found[inside] = self._permuted(places[inside], self._epoch_of(number))
        return found

    def _epoch_of(self, number: int) -> Epoch:
        epoch = self._epoch
        if epoch.number != number:
            self._epoch = epoch = self._make_epoch(number)
        return epoch

    def _permuted(self, places: Rows, epoch: Epoch) -> Rows:
        found = self._shuffled(places, epoch)
        while (outside := found >= self.num_rows).any():
            found[outside] = self._shuffled(found[outside], epoch)
        return found

    def _shuffled(self, cells: Rows, epoch: Epoch) -> Rows:
        rows, columns = np.divmod(cells, self._width)
        for by_column, by_row in epoch.rounds:
            rows = (rows + by_column[columns]) % self._height
            columns = (columns + by_row[rows]) % self._width
        found: Rows = rows * self._width + columns
        return found

    def _make_epoch(self, number: int) -> Epoch:
        if self.num_rows <= FEW_ROWS:
            return Epoch(number, (), self._orders(range(number, number + 1))[0])
        keys = self._keys(number)
        by_column = drawn(keys[::2], self._width, self._height)
        return Epoch(number, tuple(zip(by_column, drawn(keys[1::2], self._height, self._width), strict=True)))

    def _orders(self, numbers: range) -> Rows:
        """Return the orders of these epochs, (epochs, rows), all at once: of few rows that is mostly calls.

        Words that look random, sorted: their last bits say which row each is of, so none are equal, and to sort them
        takes an eighth of what it takes to find the order that would sort them.
        """
        keys = np.concatenate([self._keys(number)[:1] for number in numbers])
        marked = words(keys, self.num_rows) & ~ROW_BITS | np.arange(self.num_rows, dtype=np.uint64)
        marked.sort(axis=1)
        return (marked & ROW_BITS).astype(np.int64)

    def _keys(self, number: int) -> Words:
        digest = hashlib.sha512(f"trainyard order {self._seed} {number}".encode()).digest()
        return np.frombuffer(digest[: 8 * NUM_ROUNDS], dtype="<u8").astype(np.uint64)


def drawn(keys: Words, count: int, limit: int) -> Rows:
    """Return (keys, count) numbers below ``limit`` that look random."""
    return (words(keys, count) % np.uint64(limit)).astype(np.int64)


def words(keys: Words, count: int) -> Words:
    """Return (keys, count) words that look random: the generator SplitMix64, started at each key (Steele, Lea and Flood
    2014, "Fast Splittable Pseudorandom Number Generators", figure 17)."""
    found: Words = keys[:, None] + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found


class BatchReader(Protocol):
    def train_batch(self, positions: slice | Rows) -> Batch:
        """Return the samples at these positions, which rise and count from 0 over all epochs, on the task's device."""


# Samples of each step: one batch behind the other, without those of skipped batches. Pure.


class Skipped(NamedTuple):
    """Samples that are left out, from ``start`` up to and without ``stop``, counted from 0 over all epochs."""

    start: int
    stop: int


class SkippedSteps(NamedTuple):
    """Steps whose batches are left out, both ends included, as the attempt with that fence counted them."""

    fence: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Positions:
    """``first_step`` begins with ``first_sample``. A batch that would touch skipped samples begins behind them, so that
    every batch is one stretch of samples."""

    batch_size: int
    first_step: int = 1
    first_sample: int = 0
    skipped: tuple[Skipped, ...] = ()

    def samples_before(self, step: int) -> int:
        """Return the sample with which ``step`` begins."""
        place, left = self.first_sample, step - self.first_step
        if left < 0:
            return place + left * self.batch_size
        for start, stop in sorted(self.skipped):
            if stop <= place:
                continue
            before = max(0, start - place) // self.batch_size  # whole batches that end before the skipped samples
            if left < before:
                break
            place, left = max(place, stop), left - before
        return place + left * self.batch_size

    def without(self, steps: Iterable[SkippedSteps]) -> "Positions":
        """Leave out the batches of these steps, in the order in which that was decided: the later ones count steps as
        the earlier ones left them."""
        found = self
        for one in steps:
            if one.last >= found.first_step:
                first = found.samples_before(max(one.first, found.first_step))
                stop = found.samples_before(one.last) + found.batch_size
                found = replace(found, skipped=(*found.skipped, Skipped(first, stop)))
        return found

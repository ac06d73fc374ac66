"""The order in which rows are seen: each exactly once an epoch, whoever asks for which of them.

A place in the training (samples since its very first step) gives the row, with nothing to carry along: a restart goes
on where it was, and any number of ranks cut the same sequence. The order of an epoch is a permutation that is computed
and never stored: a Feistel network over the smallest even number of bits that holds all rows, walked until it lands on
one (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains", sections 3 and 4).
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

Rows = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

NUM_ROUNDS = 6
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits all over: 2**64 over the golden ratio
SHIFT = np.uint64(29)


class EpochOrder:
    """All of ``num_rows`` rows once in each epoch, every epoch in another order. Raises ValueError without rows."""

    def __init__(self, num_rows: int, seed: int) -> None:
        if num_rows < 1:
            raise ValueError(f"there are {num_rows} rows; an order needs one or more")
        self.num_rows = num_rows
        self._seed = seed
        self._half_bits = np.uint64(max(1, -(-(num_rows - 1).bit_length() // 2)))
        self._keys: dict[int, Words] = {}

    def rows(self, positions: slice) -> Rows:
        """Return which rows stand at these positions, int64; positions count from 0 over all epochs."""
        wanted = np.arange(positions.start, positions.stop, dtype=np.int64)
        epochs, places = np.divmod(wanted, self.num_rows)
        found = np.empty_like(wanted)
        for epoch in np.unique(epochs).tolist():
            inside = epochs == epoch
            found[inside] = self._permuted(places[inside].astype(np.uint64), self._epoch_keys(epoch))
        return found

    def _permuted(self, places: Words, keys: Words) -> Rows:
        found = self._encrypted(places, keys)
        while (outside := found >= self.num_rows).any():
            found[outside] = self._encrypted(found[outside], keys)
        return found.astype(np.int64)

    def _encrypted(self, words: Words, keys: Words) -> Words:
        bits = self._half_bits
        mask = (np.uint64(1) << bits) - np.uint64(1)
        left, right = words >> bits, words & mask
        for key in keys:
            mixed = (right ^ key) * MIX
            mixed = (mixed ^ (mixed >> SHIFT)) * MIX
            left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
        return (left << bits) | right

    def _epoch_keys(self, epoch: int) -> Words:
        if epoch not in self._keys:
            digest = hashlib.sha512(f"trainyard order {self._seed} {epoch}".encode()).digest()
            self._keys = {epoch: np.frombuffer(digest[: 8 * NUM_ROUNDS], dtype="<u8").astype(np.uint64)}
        return self._keys[epoch]

"""Samples of each step: one batch behind the other, without those of skipped batches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


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

    def without(self, steps: Iterable[SkippedSteps]) -> Positions:
        """Leave out the batches of these steps, in the order in which that was decided: the later ones count steps as
        the earlier ones left them."""
        found = self
        for one in steps:
            if one.last >= found.first_step:
                first = found.samples_before(max(one.first, found.first_step))
                stop = found.samples_before(one.last) + found.batch_size
                found = replace(found, skipped=(*found.skipped, Skipped(first, stop)))
        return found


def skipped_of(documents: Sequence[Sequence[int]]) -> tuple[Skipped, ...]:
    """Return what a checkpoint's state has of skipped samples."""
    return tuple(Skipped(int(start), int(stop)) for start, stop in documents)

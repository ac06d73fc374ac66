"""Samples on the disk of a node: four arrays that ranks map into memory, what is known of them, and which validate."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workers.training.data.problems import DataProblem
from workers.training.data.storage.cache import read_facts
from workers.training.data.storage.npz_arrays import Array, NpyWriter, open_array

PARTS = ("train", "validation")
ONE_OF = 10  # rows of a class, which validates
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows to learn from and rows to validate with.

    Inputs are images, uint8 (rows, channels, size, size), or a table, float32 (rows, features), standardised by the
    training rows. Targets are int64, places in ``classes``; float32 and standardised where a quantity is learnt, which
    has no classes. ``digest`` names the content that they were made of. ``encoding`` says of each feature of a table
    what made it of its column: a mean and a deviation, a word, or that it is missing.
    """

    train_inputs: Array
    train_targets: Array
    validation_inputs: Array
    validation_targets: Array
    classes: tuple[str, ...]
    digest: str
    facts: dict[str, Any]
    encoding: list[dict[str, Any]]


class SamplesWriter(AbstractContextManager["SamplesWriter"]):
    """Writes rows into an entry of the cache, each to the side of the split on which it is."""

    def __init__(
        self, folder: Path, split: "Split", inputs: tuple[npt.DTypeLike, tuple[int, ...]], targets: npt.DTypeLike
    ) -> None:
        self._split, self._files = split, ExitStack()
        self._writers = {
            part: (
                self._files.enter_context(NpyWriter(folder / f"{part}_inputs.npy", *inputs)),
                self._files.enter_context(NpyWriter(folder / f"{part}_targets.npy", targets)),
            )
            for part in PARTS
        }

    def append(self, inputs: Array, targets: Array, classes: Numbers) -> Array:
        """Write these rows; ``classes`` are their numbers for the split. Return which of them validate."""
        validates = self._split.validates(classes)
        for part, rows in (("train", ~validates), ("validation", validates)):
            inputs_file, targets_file = self._writers[part]
            inputs_file.append(inputs[rows])
            targets_file.append(targets[rows])
        return validates

    @property
    def num_rows(self) -> dict[str, int]:
        """Number of rows of each side: facts that all samples have."""
        return {f"num_{part}_rows": self._writers[part][0].num_rows for part in PARTS}

    def __exit__(self, *exception: Any) -> None:
        self._files.__exit__(*exception)


def refuse_too_few(location: str, class_counts: Sequence[int]) -> None:
    """Raise DataProblem where no row could validate, or there would be nothing to tell apart."""
    total = sum(class_counts)
    if max(class_counts, default=0) < 2:
        raise DataProblem(
            f"{location} has {total} rows, and no two of a class: one row trains and another one validates; bring more"
        )


def open_samples(folder: Path) -> Samples:
    """Return what a ``SamplesWriter`` wrote, memory-mapped."""
    facts = read_facts(folder)
    arrays = {
        f"{part}_{kind}": open_array(folder / f"{part}_{kind}.npy") for part in PARTS for kind in ("inputs", "targets")
    }
    classes, encoding = tuple(facts.pop("classes")), facts.pop("encoding", [])
    return Samples(**arrays, classes=classes, digest=facts["digest"], facts=facts, encoding=encoding)


# Rows that validate: one of every ten of a class, at a place in the ten that a hash of the ten's number gives.
#
# So each class has its tenth, whatever order the rows are in, and neither the rows nor the choice are kept in memory.


class Split:
    """Chooses among rows that come block by block. ``class_counts`` says how many of each class there will be."""

    def __init__(self, class_counts: Sequence[int]) -> None:
        self._seen = np.zeros(len(class_counts), np.int64)
        # A class of fewer than ten gives one all the same, unless it is the only one of its class.
        self._sizes = sizes = np.asarray(class_counts, np.int64)
        self._first_tens = np.where(sizes < ONE_OF, np.maximum(sizes, 1), ONE_OF)

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

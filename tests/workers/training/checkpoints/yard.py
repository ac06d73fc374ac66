"""Trainings with checkpoints in a folder: run, run again from what is there, and compare."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tests.workers.training.ranks import Point, notes, series, tiny_spec, train_on
from workers.training.checkpoints.store import find

RUN = "272bay33uw"


class Yard:
    """One run's folder of checkpoints. Every training of it is a new attempt, with the next fence."""

    def __init__(self, folder: Path, run: str = RUN, keys: str = "") -> None:
        """``keys`` is the path of a project's storage keys."""
        self.folder, self.run, self.fence, self.keys = folder, run, 0, keys

    def train(
        self,
        world: int,
        *,
        restore: list[dict[str, Any]] | None = None,
        setup: Callable[[], None] | None = None,
        dying: Collection[int] = (),
        **changes: Any,
    ) -> list[list[Point]]:
        """Train, from the newest of ``restore``; by default from all that is in the folder."""
        self.fence += 1
        offered = self.offers() if restore is None else restore
        return train_on(
            world,
            tiny_spec(world=world, **changes),
            setup=setup,
            dying=dying,
            TRAINYARD_RUN=self.run,
            TRAINYARD_FENCE=str(self.fence),
            TRAINYARD_CHECKPOINTS=str(self.folder),
            TRAINYARD_RESTORE=json.dumps(offered),
            TRAINYARD_STORAGE_KEYS=self.keys,
        )

    def offers(self) -> list[dict[str, Any]]:
        """Return what control would offer, newest first."""
        if not self.folder.is_dir():
            return []
        return [
            {"run": self.run, "step": mark.step, "fence": mark.fence, "folder": str(self.folder / mark.name)}
            for mark in reversed(find(self.folder))
        ]

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def states(points: list[Point]) -> list[tuple[str, int | None]]:
    """Return what was told of checkpoints, as (state, step)."""
    return [(note["state"], note.get("step")) for note in notes(points)]


def after(points: list[Point], name: str, step: int) -> dict[int | None, float]:
    """Return a series behind ``step``."""
    return {at: value for at, value in series(points, name).items() if at is not None and at > step}


def largest_difference(one: list[Point], other: list[Point], name: str = "train/loss", *, step: int = 0) -> float:
    """Return the largest relative difference of two series over the steps behind ``step``."""
    first, second = after(one, name, step), after(other, name, step)
    assert first and first.keys() == second.keys(), (sorted(first), sorted(second))
    return max(abs(first[at] - second[at]) / abs(first[at]) for at in first)

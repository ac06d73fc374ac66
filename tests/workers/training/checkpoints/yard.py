"""Trainings with checkpoints in a folder: run, run again from what is there, and compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.workers.training.ranks import Point, notes, series, tiny_spec, train_on
from workers.training.checkpoints.store import find

RUN = "272bay33uw"


class Yard:
    """One run's folder of checkpoints. Every training of it is a new attempt, with the next fence."""

    def __init__(self, folder: Path, run: str = RUN) -> None:
        self.folder, self.run, self.fence = folder, run, 0

    def train(
        self,
        world: int,
        *,
        restore: list[dict[str, Any]] | None = None,
        setup: Callable[[], None] | None = None,
        **changes: Any,
    ) -> list[list[Point]]:
        """Train, from the newest of ``restore``; by default from all that is in the folder."""
        self.fence += 1
        offered = self.offers() if restore is None else restore
        return train_on(
            world,
            tiny_spec(world=world, **changes),
            setup=setup,
            TRAINYARD_RUN=self.run,
            TRAINYARD_FENCE=str(self.fence),
            TRAINYARD_CHECKPOINTS=str(self.folder),
            TRAINYARD_RESTORE=json.dumps(offered),
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


def largest_difference(one: list[Point], other: list[Point], name: str = "train/loss", *, after: int = 0) -> float:
    """Return the largest relative difference of two series over the steps behind ``after``."""
    first, second = (
        {step: value for step, value in series(points, name).items() if step is not None and step > after}
        for points in (one, other)
    )
    assert first and first.keys() == second.keys(), (sorted(first), sorted(second))
    return max(abs(first[step] - second[step]) / abs(first[step]) for step in first)

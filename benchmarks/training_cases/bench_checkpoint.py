"""What checkpoints cost a training of 10 million parameters: the time it stands still, over the time it takes.

Beside it, what it would stand still if each were one `torch.save` of the same state, synced, that the training waits
for. Two ranks share the writing, so that each copies a half of the state.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks import goals
from benchmarks.ranks import gpt_spec, on_ranks
from benchmarks.table import Row, middle, scaled, spread_of
from trainyard.contract.records import Checkpoint, Facts
from trainyard.spec import RecipeSpec
from workers.training.group import RankPlace
from workers.training.main import train
from workers.training.recipes.gpt import GPT, Shape

MODEL = {"layers": 6, "width": 448, "heads": 8, "context": 64}  # 9.9 million parameters
EVERY_STEPS = 100  # the default of checkpoint.every_steps
NUM_CHECKPOINTS = 3
WORLD = 2
REPEATS = 3  # of torch.save


@dataclass
class Watched:
    """Takes what a run of the SDK takes, and keeps when steps ended and what became of checkpoints."""

    step_ends: dict[int, float] = field(default_factory=dict)
    saved: list[Checkpoint] = field(default_factory=list)

    def log(self, values: Mapping[str, float], step: int | None = None, labels: Any = None) -> None:
        if "rank/memory_bytes" in values and step is not None:  # each rank's own, once a step
            self.step_ends[step] = time.perf_counter()

    def flush(self) -> bool:
        return True

    def report(self, record: Checkpoint | Facts) -> None:
        if isinstance(record, Checkpoint):
            self.saved.append(record)


def trained(place: RankPlace, spec: RecipeSpec, folder: str) -> tuple[float, float, list[Checkpoint]]:
    """In a rank: train, and return the wall time of its steps, the wait behind the last, and its records."""
    if folder:
        os.environ["TRAINYARD_CHECKPOINTS"] = folder
    watched = Watched()
    train(spec, place, watched)
    ends = watched.step_ends
    return ends[max(ends)] - ends[1], time.perf_counter() - ends[max(ends)], watched.saved


def waited_for_torch_save(folder: Path) -> list[float]:
    """Return the seconds of some torch.save of the whole state, each synced to the disk."""
    model = GPT(Shape(**MODEL, vocabulary=256))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    found = []
    for index in range(REPEATS):
        started = time.perf_counter()
        with (folder / f"{index}.pt").open("wb") as file:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        found.append(time.perf_counter() - started)
    return found


def rows() -> list[Row]:
    steps = EVERY_STEPS * scaled(NUM_CHECKPOINTS)
    spec = gpt_spec(WORLD, model=MODEL, steps=steps, batch_size=8, validate_every_steps=0)
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        ranks = on_ranks(WORLD, trained, spec, str(Path(folder) / "checkpoints"))
        saves = waited_for_torch_save(Path(folder))
    wall_s, wait_s, reported = ranks[0]
    saved = [one for one in reported if one.state == "saved"]
    if len(saved) != steps // EVERY_STEPS:
        raise RuntimeError(f"of {steps // EVERY_STEPS} checkpoints these were kept: {reported}")
    stalls = [one.stall_s or 0.0 for one in saved]
    shares = [100 * stall / (wall_s / len(saved)) for stall in stalls]
    megabytes = (saved[0].bytes or 0) / 1e6
    took = middle(one.took_s or 0.0 for one in saved)
    return [
        Row(
            f"training stands still for checkpoints, {steps} steps of 10 M parameters, one every {EVERY_STEPS}",
            100 * sum(stalls) / wall_s,
            "% of the time",
            100 * middle(saves) * len(saved) / wall_s,
            "torch.save, waited for",
            goal=goals.CHECKPOINT_STALL,
            spread=spread_of(shares),
            others={"with the wait for the last one at the end": 100 * (sum(stalls) + wait_s) / (wall_s + wait_s)},
            note=f"{megabytes:.0f} MB each, {1000 * middle(stalls):.0f} ms still, {took:.1f} s until on the disk; "
            f"a step took {1000 * wall_s / (steps - 1):.0f} ms on {WORLD} ranks of one thread",
        )
    ]

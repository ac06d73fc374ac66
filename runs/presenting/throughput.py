"""How fast a run trains: one number for its page, the tables, the plan, REST and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runs.records.points import read
from trainyard.formats import figures

RATES = {f"train/{unit}_per_second": words for unit, words in figures.RATES.items()}  # the first that a run logs
MFU = "train/mfu"
SPEEDS = (*RATES, MFU)


@dataclass(frozen=True)
class Throughput:
    """Medians over the steady part of a run; ``mfu`` is a share of what its devices can do. None: not logged."""

    value: float | None = None
    unit: str = ""
    mfu: float | None = None


def throughputs(run_ids: Sequence[str]) -> dict[str, Throughput]:
    """Return how fast each run trains. A single step, the last one too, may have validated or saved a checkpoint."""
    medians = read.steady_medians(run_ids, SPEEDS)
    return {run_id: throughput_of(medians.get(run_id, {})) for run_id in run_ids}


def throughput_of(medians: dict[str, float]) -> Throughput:
    name = next((name for name in RATES if name in medians), "")
    return Throughput(medians.get(name), RATES.get(name, ""), medians.get(MFU))

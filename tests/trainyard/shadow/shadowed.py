"""Scripts that run under ``trainyard shadow``, and what comes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.trainyard.spooled import Points, points, producers
from tests.up_process import ROOT
from trainyard.spooling.frames import Frame

RANDOM = """
import math, os, random, sys

seed, calls = int(sys.argv[1]), int(sys.argv[2])
print("seed", seed)
chance = random.Random(seed)


def number():
    return chance.choice([chance.gauss(0, 1), chance.randrange(-9, 9), 1e300, -1e-300, math.nan, math.inf, -math.inf])


def names():
    return chance.sample(["loss", "acc", "lr", "train/loss", "a b"], chance.randrange(1, 4))

"""


@dataclass
class Shadowed:
    """What a script left."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def spools(self) -> list[Path]:
        return sorted(one for one in (self.folder / "trainyard-spool").glob("*") if one.is_dir())

    def frames(self) -> list[Frame]:
        """Return the records of all processes of the one run."""
        [spool] = self.spools
        return [frame for frames in producers(spool) for frame in frames]

    def points(self) -> Points:
        return points(self.frames())

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        return [frame.payload for frame in self.frames() if frame.kind == kind]

    @property
    def reason(self) -> str:
        [end] = self.payloads("end")
        return str(end["reason"])


def shadowed(folder: Path, script: str, *words: str, options: tuple[str, ...] = (), **variables: str) -> Shadowed:
    """Run the script in ``folder`` with these words."""
    (folder / "train.py").write_text(script)
    own = ("TRAINYARD_", "PYTHON", "WANDB_", "MLFLOW_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    wandb = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
    program = [sys.executable, "-m", "trainyard", "shadow", *options, "--", sys.executable, "train.py", *words]
    done = subprocess.run(
        program, cwd=folder, capture_output=True, text=True, timeout=250,
        env={**inherited, **wandb, "HOME": str(folder), "PYTHONPATH": str(ROOT), **variables},
    )  # fmt: skip
    return Shadowed(done.returncode, done.stdout, done.stderr, folder)


def exact(found: Points) -> dict[str, list[tuple[int, str]]]:
    """Return steps and values by name, in order, so that NaN is like NaN and no bit differs."""
    made = defaultdict(list)
    for (name, labels), series in found.items():
        made["|".join((name, *(value for _, value in labels)))] += [(step, value.hex()) for step, value in series]
    return {name: sorted(series) for name, series in made.items()}

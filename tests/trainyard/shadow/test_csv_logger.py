"""What Lightning's CSVLogger writes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.trainyard.shadow.shadowed import RANDOM, exact, shadowed

CALLS = (
    RANDOM
    + """
import torch
from lightning.pytorch.loggers import CSVLogger

logger = CSVLogger("logs", flush_logs_every_n_steps=50)
for step in range(calls):
    logger.log_metrics({name: chance.choice([number(), torch.tensor(0.1)]) for name in names()}, step)
logger.finalize("success")
"""
)


@pytest.mark.parametrize("options", [(), ("--only",)])
def test_rows_are_to_the_bit_what_the_file_holds(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = shadowed(tmp_path, CALLS, "5", "1000", options=options)
    assert done.code == 0, done.err
    files = list(tmp_path.rglob("metrics.csv"))
    if options:
        assert not files and sum(map(len, done.points().values())) > 1000
        return
    found: dict[str, list[tuple[int, str]]] = {}
    with files[0].open(newline="") as file:
        for row in csv.DictReader(file):
            step = int(row.pop("step"))
            for name, text in row.items():
                if text:
                    found.setdefault(name, []).append((step, float(text).hex()))
    assert exact(done.points()) == {name: sorted(series) for name, series in found.items()}

"""The jobs of a trace through a real Slurm of many machines on this one, in time that goes faster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from benchmarks.queueing.trace import Job
from tests.slurm import Slurm

PATIENCE_S = 1_200.0
LEAST_LIMIT_S = 60.0  # that Slurm knows
JOB = """#!/bin/sh
date +%s.%N > {file}.part && mv {file}.part {file}
exec sleep {seconds:.3f}
"""


def starts_of(slurm: Slurm, jobs: Sequence[Job], speed: float) -> dict[int, float]:
    """Return when each of the jobs started, by its number, in seconds of the trace. Slurm has the time that a job takes
    as its limit, rounded up to minutes of the faster time."""
    folder = slurm.folder / "started"
    folder.mkdir()
    began, first = time.time(), jobs[0].at
    for job in jobs:
        time.sleep(max(0.0, (job.at - first) / speed - (time.time() - began)))
        _submit(slurm, job, job.lasts_s / speed, folder / str(job.number))
    while len(files := [one for one in folder.iterdir() if not one.suffix]) < len(jobs):
        if time.time() - began > PATIENCE_S:
            raise TimeoutError(f"{len(jobs) - len(files)} jobs did not start in {PATIENCE_S:.0f} s")
        time.sleep(1)
    return {int(one.name): first + (float(one.read_text()) - began) * speed for one in files}


def _submit(slurm: Slurm, job: Job, seconds: float, file: Path) -> None:
    script = slurm.folder / f"job-{job.number}"
    script.write_text(JOB.format(file=file, seconds=seconds))
    minutes = ceil((seconds + 1) / LEAST_LIMIT_S)
    said = slurm.call(
        "sbatch", f"--nodes={job.nodes}", f"--ntasks-per-node={job.slots}", f"--time={minutes}",
        f"--output={slurm.folder}/out", str(script),
    )  # fmt: skip
    assert said, f"Slurm refused job {job.number}"

"""The queue in virtual time: fair shares with backfill beside first come first served and beside EASY, over a trace,
how true the predicted starts are, and the processor time of one pass.

``QUEUE_TRACE`` names a trace (``timestamp, duration, num_gpus, gpu_time, cluster`` a line, gzipped), such as that of
Microsoft's Philly cluster (Jeon et al., USENIX ATC 2019). Without it the jobs are made up.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import mean

from benchmarks import goals
from benchmarks.queueing.simulator import Played, Simulator, waits
from benchmarks.queueing.trace import SLOTS, Job, jobs_of, made_up, p95
from benchmarks.table import Goal, Row, scaled
from runs.placing.fitting import GPU, Request, Room
from runs.placing.scheduling import place

SEED = 7
MADE_UP = 12_000
TOLD = 0.002  # of the jobs that wait are asked for their predicted start
NODES = 1_000


def rows() -> list[Row]:
    trace = os.environ.get("QUEUE_TRACE")
    found = []
    for slots in (400, 440):
        jobs = jobs_of(Path(trace)) if trace else made_up(scaled(MADE_UP), slots, SEED)
        found += _policies(jobs, slots, "Philly's first half" if trace else f"{len(jobs):,} made-up jobs")
    return [*found, _one_pass(10_000, goals.QUEUE_PASS), _one_pass(100_000, goals.QUEUE_LONG_PASS)]


def _policies(jobs: list[Job], slots: int, what: str) -> list[Row]:
    first, _ = _played(jobs, slots, "first-come", knows_ends=False)
    easy, _ = _played(jobs, slots, "first-come")
    fair, seconds = _played(jobs, slots, "fair-share", told=TOLD)
    about = f"{what} on {slots} slots"
    lasts = mean(job.lasts_s for job in jobs)
    means = [mean(waits(jobs, one)) for one in (fair, first, easy)]
    wide = [mean(waits(jobs, one, least=SLOTS)) for one in (fair, first, easy)]
    ours, of_first, of_easy = (one + lasts for one in means)
    ends = [p95(waits(jobs, one)) for one in (fair, easy)]
    note = f"mean wait {means[0]:,.0f} s, p95 {ends[0]:,.0f}; EASY {means[2]:,.0f} and {ends[1]:,.0f}"
    is_wide = f"{about}: mean wait of {SLOTS} and more slots"
    return [
        Row(f"{about}: mean completion", ours, "s", of_first, "first come, first served", goal=goals.QUEUE_FIRST_COME),
        Row(f"{about}: mean completion", ours, "s", of_easy, "EASY backfill", goal=goals.QUEUE_EASY, note=note),
        Row(is_wide, wide[0], "s", wide[2], "EASY backfill", goal=goals.QUEUE_WIDE),
        Row(f"{about}: processor time", seconds, "s", None, "", goal=goals.QUEUE_SECONDS),
        *_truth(about, fair, jobs),
    ]  # fmt: skip


def _played(jobs: list[Job], slots: int, policy: str, **how: float) -> tuple[Played, float]:
    began = time.process_time()
    played = Simulator(slots // SLOTS, policy, seed=SEED, **how).run(jobs)  # type: ignore[arg-type]  # as it takes them
    return played, time.process_time() - began - played.telling_s


def _truth(about: str, played: Played, jobs: list[Job]) -> list[Row]:
    """Of sampled jobs that waited over a minute: how many started when they were told, and within the band."""
    asked = {job: played.started[job] - at for job, (at, _) in played.told.items()}
    long = [job for job, wait in asked.items() if wait > 60]
    if not long:
        return []
    spans = {job: played.told[job][1] for job in long}
    near = mean(abs(asked[job] - spans[job].expected) <= max(60.0, 0.1 * asked[job]) for job in long)
    inside = mean(spans[job].low <= asked[job] <= spans[job].high for job in long)
    what = f"{about}: predicted starts within 1 min or 10 %"
    note = f"of {len(long)} sampled; {100 * inside:.0f} % in the band of 80 %"
    return [Row(what, 100 * near, "%", None, "", is_less_better=False, goal=goals.QUEUE_TOLD, note=note)]


def _one_pass(num_runs: int, goal: Goal) -> Row:
    """Nodes with 8 slots, of which 4 in each are held, and runs that wait; the first is too wide."""
    ends = [dict.fromkeys(range(4), 60.0 * (1 + number % 50)) for number in range(NODES)]
    rooms = [
        Room(f"n{number}", f"node-{number:04}", SLOTS, (4, 5, 6, 7), GPU, ends=ends[number]) for number in range(NODES)
    ]
    queue = [Request("wide", NODES, SLOTS, GPU, lasts_s=600.0)]
    shapes = [(1, 8), (2, 8), (4, 8), (1, 6), (16, 8)]
    queue += [
        Request(f"r{number}", *shapes[number % len(shapes)], GPU, lasts_s=60.0 * (1 + number % 90))
        for number in range(num_runs)
    ]
    best = min(_seconds_of_pass(queue, rooms) for _ in range(3))
    what = f"one pass over {num_runs:,} waiting runs and {NODES:,} nodes of {SLOTS} slots"
    return Row(what, best, "s", None, "", goal=goal, note="processor time, the best of 3")


def _seconds_of_pass(queue: list[Request], rooms: list[Room]) -> float:
    began = time.process_time()
    place("", queue, rooms)
    return time.process_time() - began

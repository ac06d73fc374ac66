"""The queue in virtual time: fair shares with backfill beside first come first served, beside EASY and, for a slice,
beside a real Slurm in faster time; what a fifth of elastic jobs changes; how true the predicted starts are, and the
processor time of one pass.

``QUEUE_TRACE`` names a trace (``timestamp, duration, num_gpus, gpu_time, cluster`` a line, gzipped), such as that of
Microsoft's Philly cluster (Jeon et al., USENIX ATC 2019). Without it the jobs are made up.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean

from benchmarks import goals
from benchmarks.queueing.elastic import CHANGE_S, ElasticSimulator
from benchmarks.queueing.simulator import WEEK_S, Played, Simulator, waits
from benchmarks.queueing.slurm import LEAST_LIMIT_S, starts_of
from benchmarks.queueing.trace import SLOTS, Job, jobs_of, made_up, p95
from benchmarks.table import Goal, Row, scaled
from runs.placing.fitting import GPU, Request, Room
from runs.placing.scheduling import place
from tests.slurm import missing_program, running_slurm

SEED = 7
MADE_UP = 12_000
TOLD = 0.005  # of the jobs that wait are asked for their predicted start
ELASTIC = 0.2  # of the jobs
NODES = 1_000
SLICE, SLICE_SLOTS, FASTER = slice(7_000, 7_300), 120, 250.0  # that a real Slurm is given, with gangs of up to 4 nodes


def rows() -> list[Row]:
    trace = os.environ.get("QUEUE_TRACE")
    found = []
    for slots in (400, 440):
        jobs = jobs_of(Path(trace)) if trace else made_up(scaled(MADE_UP), slots, SEED)
        found += _policies(jobs, slots, "Philly's first half" if trace else f"{len(jobs):,} made-up jobs")
    if trace:
        found.append(_beside_slurm(jobs_of(Path(trace))[SLICE]))
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
        *_truth(about, fair, jobs), _short(about, fair, slots),
        *(_elastic(about, efficiency, jobs, slots, means[0]) for efficiency in (1.0, 0.8)),
    ]  # fmt: skip


def _elastic(about: str, efficiency: float, jobs: list[Job], slots: int, without: float) -> Row:
    """A part of the jobs may have once to twice their nodes; the law of their speed is assumed."""
    simulator = ElasticSimulator(slots // SLOTS, part=ELASTIC, efficiency=efficiency, seed=SEED)
    wait = mean(waits(jobs, simulator.run(jobs)))
    law = "twice the nodes are twice as fast" if efficiency == 1 else f"Amdahl's law, {2 * efficiency:g} times on twice"
    what = f"{about}: mean wait with a fifth elastic, once to twice their nodes; {law}"
    note = f"{simulator.changes:,} changes of size, of {CHANGE_S:g} s each"
    return Row(what, wait, "s", without, "none elastic", goal=goals.QUEUE_ELASTIC, note=note)


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
    note = f"of {len(long)} sampled"
    return [
        Row(f"{about}: predicted starts {which}", 100 * part, "%", None, "", is_less_better=False, goal=goal, note=note)
        for which, part, goal in (
            ("within 1 min or 10 %", near, goals.QUEUE_TOLD),
            ("in the band of 80 %", inside, goals.QUEUE_BAND),
        )
    ]


def _short(about: str, played: Played, slots: int) -> Row:
    """Say how far a team was below an equal part of the cluster in its worst week, of all slot-time of a week."""
    (week, team), most = max(played.short.items(), key=lambda one: one[1])
    what = f"{about}: most that a team had below an equal part in a week"
    return Row(what, 100 * most / (slots * WEEK_S), "%", None, "", goal=goals.QUEUE_SHORT, note=f"{team}, week {week}")


def _beside_slurm(jobs: list[Job]) -> Row:
    """Play a slice in virtual time, and have a real Slurm run it as jobs that sleep."""
    jobs = [replace(job, number=number, at=job.at - jobs[0].at) for number, job in enumerate(jobs)]
    what, lasts = f"{len(jobs)} jobs on {SLICE_SLOTS} slots: mean completion", mean(job.lasts_s for job in jobs)
    fair, _ = _played(jobs, SLICE_SLOTS, "fair-share")
    ours = lasts + mean(waits(jobs, fair))
    if lacking := missing_program():
        return Row(what, ours, "s", None, "", note=f"Slurm's {lacking} is not on this machine")
    with running_slurm(SLICE_SLOTS // SLOTS, SLOTS) as slurm:
        started = starts_of(slurm, jobs, FASTER)
    theirs = lasts + mean(started[job.number] - job.at for job in jobs)
    note = f"{FASTER:g} times faster; Slurm knows each length, rounded up to {FASTER * LEAST_LIMIT_S:,.0f} s"
    return Row(what, ours, "s", theirs, "a real slurmctld with sched/backfill", goal=goals.QUEUE_EASY, note=note)


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

"""Bytes that a point takes in the database with its step and time, everything counted that is in the file: indexes,
summaries, and the levels of the pyramid.

The limit is the same columns compressed by the codec alone, each in one piece; a peer's bytes are those of Trackio,
which `make bench ARGS=whole` compares with the others too.
"""

from __future__ import annotations

import numpy as np
from pcodec import ChunkConfig, standalone

from benchmarks import goals
from benchmarks.compare import Answers, measure
from benchmarks.load.compaction import compact_now
from benchmarks.load.fill import Plan
from benchmarks.load.flow import senders, through_ingest
from benchmarks.load.generate import noisy
from benchmarks.metrics_stack import MetricsStack, metrics_stack
from benchmarks.peers.drive import size_of_sqlite
from benchmarks.table import Goal, Row, scaled

NUM_SERIES = 10
CASES = (
    # what, rows in a frame, rows in all, seconds between frames, whether all bits of a double are used, the goal
    ("float32-exact, frames of 1,000", 1_000, 200_000, 0, False, goals.STORED_LARGE_FRAMES),
    (
        "float32-exact, frames of 20, fifty a second",
        20,
        20_000,
        0.02,
        False,
        goals.STORED_SMALL_FRAMES,
    ),  # each is a commit of its own
    ("full doubles, frames of 1,000", 1_000, 100_000, 0, True, goals.STORED_DOUBLES),
)
CONFIG = ChunkConfig(compression_level=8)
PEER_STEPS = {"trackio": 20_000}


def rows() -> list[Row]:
    peer = measure("ingest", PEER_STEPS)
    with metrics_stack() as place:
        return [stored(place, peer, *case) for case in CASES]


def stored(
    place: MetricsStack,
    peer: Answers,
    what: str,
    per_frame: int,
    num_rows: int,
    every_s: float,
    is_full: bool,
    wanted: Goal,
) -> Row:
    num_rows = scaled(num_rows, 2_000)
    plan = Plan(str(place.socket), senders(place, 1), NUM_SERIES, num_rows, per_frame, every_s, is_full)
    path = place.home / "metrics.sqlite3"
    empty_bytes = size_of_sqlite(path)
    with place.ingest() as process:
        through_ingest(place, plan, process)
    fresh = (size_of_sqlite(path) - empty_bytes) / plan.num_points
    compact_now()
    ours = (size_of_sqlite(path) - empty_bytes) / plan.num_points
    return Row(
        f"stored, {what}", ours, "bytes/point", least_bytes(plan), "the codec alone on whole columns",
        goal=wanted, others={**peer.of("bytes_per_point"), "plain columns": plain_bytes(plan)},
        note="; ".join(filter(None, [f"as ingest wrote it {fresh:.2f}", peer.note])),
    )  # fmt: skip


def least_bytes(plan: Plan) -> float:
    points = noisy(plan.num_rows, plan.num_series, is_full=plan.is_full)
    values = points.values if plan.is_full else points.values.astype(np.float32)
    columns = [points.steps, points.times, *(np.ascontiguousarray(column) for column in values.T)]
    return sum(len(standalone.simple_compress(column, CONFIG)) for column in columns) / plan.num_points


def plain_bytes(plan: Plan) -> float:
    return 8 + 16 / plan.num_series

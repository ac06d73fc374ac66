"""What states in memory cost a training of 10 million parameters at the default interval: its steps with and without,
in one process group and in blocks that take turns.

Each of the two ranks is a node of its own, with a memory folder and a receiver in another process, as node workers
have them. A block is as long as the interval that ``auto`` has chosen, so that one state is taken in each.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks import goals
from benchmarks.ranks import gpt_spec, on_ranks
from benchmarks.table import Row, middle, scaled
from benchmarks.training import prepared
from benchmarks.training_cases.bench_checkpoint import MODEL, WORLD, Watched
from benchmarks.training_cases.bench_step import Times, interval
from trainyard.contract.base import encode
from trainyard.contract.seals import new_key
from trainyard.spec import RecipeSpec
from workers.replicas.folders import PLAN, SHARED_MEMORY, MemoryFolder, PeerNode, ReplicaPlan, read_plan, used_bytes
from workers.replicas.receiving import KnownAttempt, Receiver
from workers.training import group as process_group
from workers.training.build import Training
from workers.training.checkpoints.store import read_store
from workers.training.group import RankPlace
from workers.training.keeping import DiskCheckpoints
from workers.training.loop import settle, take_step

RUN = "bench"
PAIRS = 6
LIMIT_BYTES = 4 << 30
LONGEST_BLOCK = 400


class Measured(NamedTuple):
    """``blocks`` are the seconds of a step of each block, with states and without."""

    every: int
    length: int  # of a block, in steps; shorter than `every` where that would take too long
    blocks: Times
    stalls: list[float]  # for which a step stood still for one state


def rows() -> list[Row]:
    num_pairs = scaled(PAIRS, least=2)
    steps = 1_000_000  # more than are taken: how long the interval is shows only then
    spec = gpt_spec(WORLD, model=MODEL, steps=steps, batch_size=8, validate_every_steps=0)
    key = new_key()
    with tempfile.TemporaryDirectory(
        prefix="trainyard-bench-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    ) as folder:
        roots = [Path(folder) / f"node-{rank}" for rank in range(WORLD)]
        for root in roots:
            root.mkdir()
        find = partial(_find, KnownAttempt(RUN, 1, key))
        receivers = [Receiver(MemoryFolder(root, LIMIT_BYTES), "127.0.0.1", find) for root in roots]
        for receiver in receivers:
            receiver.start()
        try:
            plans = [_plan(rank, roots, receivers, key) for rank in range(WORLD)]
            found = on_ranks(WORLD, rank_times, spec, plans, num_pairs)[0]
            held = used_bytes(roots[0])
        finally:
            for receiver in receivers:
                receiver.close()
    # A block has one state: of a shorter one than the interval its cost counts for the whole interval.
    low, ratio, high = (1 + (one - 1) * found.length / found.every for one in interval(found.blocks))
    with_ms, without_ms = (1000 * middle(second for one in blocks for second in one) for blocks in found.blocks)
    return [
        Row(
            "step with states in memory at the default interval, 10 M parameters: times one without",
            ratio,
            "times",
            1.0,
            "the same step without",
            goal=goals.REPLICA,
            spread=(low, high),
            others={"ms with": with_ms, "ms without": without_ms},
            note=f"auto chose every {found.every} steps; {1000 * middle(found.stalls):.0f} ms still a state; "
            f"{held / 1e6:.0f} MB on a node; {num_pairs} pairs of blocks",
        )
    ]


def _find(known: KnownAttempt, attempt: str) -> KnownAttempt:
    return known


def _plan(rank: int, roots: list[Path], receivers: list[Receiver], key: str) -> ReplicaPlan:
    peer = (rank + 1) % len(roots)
    return ReplicaPlan(
        node=roots[rank].name,
        folder=str(MemoryFolder(roots[rank], LIMIT_BYTES).run(RUN).path),
        limit_bytes=LIMIT_BYTES,
        attempt=RUN,
        key=key,
        peer=PeerNode(roots[peer].name, "127.0.0.1", receivers[peer].port),
    )


def rank_times(place: RankPlace, spec: RecipeSpec, plans: list[ReplicaPlan], num_pairs: int) -> Measured:
    """In a rank: let blocks with and without states take turns, each going first as often as the other."""
    plan = plans[place.rank]
    own = {PLAN: encode(plan), "TRAINYARD_RUN": RUN, "TRAINYARD_FENCE": "1"}
    os.environ.update({**own, "TRAINYARD_CHECKPOINTS": str(Path(plan.folder).parents[1] / "checkpoints")})
    process_group.join(place, torch.device("cpu"))
    training = prepared(spec, place)
    settle(training)
    keeper = DiskCheckpoints(spec, read_store(os.environ), Watched(), read_plan(os.environ))
    keeper.restore(training)
    return _measured(training, keeper, num_pairs)


def _measured(training: Training, keeper: DiskCheckpoints, num_pairs: int) -> Measured:
    replicas = keeper.replicas
    assert replicas is not None, "no state is kept in memory here"
    step = 0
    stalls: list[float] = []

    def with_states(number: int) -> None:
        take_step(training, number)
        started = time.perf_counter()
        keeper.keep_in_memory(training, number)
        if replicas.interval.every and number % replicas.interval.every == 0:
            stalls.append(time.perf_counter() - started)

    def without(number: int) -> None:
        take_step(training, number)

    while replicas.interval.every is None:
        step += 1
        with_states(step)
    every = replicas.interval.every
    length = min(every, longest_block())
    times = Times([], [])
    for pair in range(num_pairs):
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            first = (step // every + 1) * every  # behind which a state is due: it is on its way during the block
            times[which].append([_block(without if which else with_states, first, length) / length])
            replicas.wait(60.0)
            step = first + length - 1
    return Measured(every, length, times, stalls)


def longest_block() -> int:
    return scaled(LONGEST_BLOCK, least=10)


def _block(take: Callable[[int], None], first: int, length: int) -> float:
    started = time.perf_counter()
    for number in range(first, first + length):
        take(number)
    return time.perf_counter() - started

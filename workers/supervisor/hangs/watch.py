"""Looks at the ranks of this node twice a second, and records in each what keeps it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainyard.contract.base import to_builtins
from trainyard.contract.orders import Order
from trainyard.contract.reports import RankStall
from trainyard.spec.sections.hangs import HangRules
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import STOPPED, cpu_s, descendants_of, state_of
from workers.progress.marker import Marker
from workers.rank_process.cold_rank import MarksFile
from workers.supervisor.hangs.connections import LASTING_TRIES, unacknowledged
from workers.supervisor.hangs.stacks import Stacks
from workers.supervisor.hangs.tracker import Kind, Sample, Tracker
from workers.supervisor.ranks.state import RankState

EVERY_S = 0.5
LIFE_EVERY_S = 2.0  # how often processor time and output are looked at
BUSY_SHARE = 0.05  # of one core
CUT_LIMIT_S = 7.5  # without progress, where a network is cut; one that is back after 6 s has carried something by then


class HangWatch:
    """Of one attempt on one node. ``markers`` are in the order of the ranks."""

    def __init__(self, order: Order, folder: AttemptFolder, markers: Sequence[Marker | MarksFile]) -> None:
        self._folder = folder
        self._markers = markers
        self._rules = HangRules.of(order.spec)
        task = order.spec["task"]
        trains = "recipe" in task and task["recipe"] != "communication-benchmark"
        self._kind = Kind(counts_steps=trains, is_gang=order.world_size > 1)
        self._trackers: dict[int, Tracker] = {}
        self._life = Life(folder)
        self._stacks = Stacks(folder)
        self._looked_at = 0.0

    def update(self, ranks: Sequence[RankState]) -> bool:
        """Record in the ranks what keeps them. Returns whether that changes the report."""
        now = time.monotonic()
        if now - self._looked_at < EVERY_S:
            return False
        self._looked_at = now
        changed = False
        for rank, marker in zip(ranks, self._markers, strict=False):
            stall = None
            if rank.ended_at is None:
                tracker = self._trackers.setdefault(rank.rank, Tracker(self._rules, self._kind, now=now))
                sample = Sample(
                    now=now,
                    at=time.time(),
                    marks=marker.read(),
                    is_stopped=any(state_of(pid) == STOPPED for pid in {rank.main_pid, rank.pid}),
                    is_alive=self._life.is_seen(rank, now),
                )
                stall = tracker.update(sample)
                if stall is not None:
                    self._add_evidence(stall, rank, sample.at)
                else:
                    self._stacks.forget(rank.rank)
            if to_builtins(stall) != to_builtins(rank.stall):
                rank.stall, changed = stall, True
        return changed

    def _add_evidence(self, stall: RankStall, rank: RankState, at: float) -> None:
        if stall.collective is not None:
            add_network(stall, rank.main_pid, at)
        if not stall.stack and not stall.is_stopped:
            if not self._stacks.was_asked(rank.rank):
                self._life.ignore_next_output(rank.rank)
            stall.stack = self._stacks.of(rank)
            stall.line = self._stacks.line_in(stall.stack)


def add_network(stall: RankStall, pid: int, at: float) -> None:
    """Record what the kernel knows of the rank's connections.

    A cut network needs no long proof, and a short cut is none: the kernel sends the bytes again, and the ranks go on.
    """
    stall.unacknowledged = unacknowledged(pid)
    if stall.unacknowledged:
        stall.limit_s = min(stall.limit_s, CUT_LIMIT_S)
        is_lasting = bool(unacknowledged(pid, least_tries=LASTING_TRIES))
        stall.is_over |= is_lasting and at - stall.since >= stall.limit_s


class Life:
    """What ranks print, and the processor time that they and their children use."""

    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._seen: dict[int, tuple[float, int, float]] = {}  # when, bytes printed, seconds used, by rank
        self._ignored: set[int] = set()

    def ignore_next_output(self, rank: int) -> None:
        """What the rank prints next was asked for: it is no sign of life."""
        self._ignored.add(rank)

    def is_seen(self, rank: RankState, now: float) -> bool:
        """Whether the rank has printed or computed since the last answer, which is LIFE_EVERY_S old at least."""
        last = self._seen.get(rank.rank)
        if last is not None and now - last[0] < LIFE_EVERY_S:
            return False
        printed = sum(self._size(rank.rank, stream) for stream in ("stdout", "stderr"))
        used_s = sum(map(cpu_s, (rank.main_pid, *descendants_of(rank.main_pid))))
        self._seen[rank.rank] = now, printed, used_s
        has_printed = last is not None and printed != last[1]
        if has_printed and rank.rank in self._ignored:
            self._ignored.discard(rank.rank)
            has_printed = False
        return last is None or has_printed or used_s - last[2] > BUSY_SHARE * (now - last[0])

    def _size(self, rank: int, stream: str) -> int:
        try:
            return self._folder.stream_path(rank, stream).stat().st_size
        except OSError:
            return 0

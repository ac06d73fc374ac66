"""Looks at the ranks of this node twice a second, and records in each what keeps it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainyard.contract.base import to_builtins
from trainyard.contract.orders import Order
from trainyard.contract.reports import RankStall
from trainyard.spec.sections.hangs import HangRules
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import STOPPED, state_of
from workers.progress.marker import Marker
from workers.rank_process.cold_rank import MarksFile
from workers.supervisor.hangs.connections import LASTING_TRIES, unacknowledged
from workers.supervisor.hangs.stacks import Stacks
from workers.supervisor.hangs.tracker import Kind, Sample, Tracker
from workers.supervisor.ranks.activity import Activity
from workers.supervisor.ranks.state import RankState

EVERY_S = 0.5
CUT_LIMIT_S = 7.5  # without progress, where a network is cut; one that is back after 6 s has carried something by then


class HangWatch:
    """Of one attempt on one node. ``markers`` are in the order of the ranks."""

    def __init__(
        self, order: Order, folder: AttemptFolder, markers: Sequence[Marker | MarksFile], activity: Activity
    ) -> None:
        self._folder = folder
        self._markers = markers
        self._rules = HangRules.of(order.spec)
        task = order.spec["task"]
        trains = "recipe" in task and task["recipe"] != "communication-benchmark"
        self._kind = Kind(counts_steps=trains, is_gang=order.world_size > 1)
        self._trackers: dict[int, Tracker] = {}
        self._activity = activity
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
            if rank.ended_at is None and not rank.is_exiting:
                tracker = self._trackers.setdefault(rank.rank, Tracker(self._rules, self._kind, now=now))
                sample = Sample(
                    now=now,
                    at=time.time(),
                    marks=marker.read(),
                    is_stopped=any(state_of(pid) == STOPPED for pid in {rank.main_pid, rank.pid}),
                    # To wait for the others of a process group is no progress: torch looks for them all the time.
                    is_alive=self._activity.take_news(rank.rank) and rank.group != "waiting",
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
                self._activity.ignore_answer(rank.rank)
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

"""How ranks that were asked to stop did so: how long it took, who had to be killed, and what was saved before."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence

import structlog

from trainyard.contract.reports import SavedStep, StopEvidence
from workers.attempt.folder import AttemptFolder
from workers.attempt.json_files import read_document
from workers.machine.processes import descendants_of, send
from workers.supervisor.ranks.state import RankState

log = structlog.get_logger(__name__)

EXIT_GRACE_S = 10.0  # a rank whose script is over has so long to exit


class StopProgress:
    """``grace_s`` is what ranks have from SIGTERM to SIGKILL; what the server names goes before the spec's own."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self.began_at = 0.0  # monotonic
        self._at = 0.0  # Unix seconds
        self.is_hurried = False  # the server has named a shorter grace while it ran
        self.killed: list[int] = []

    def begin(self, now: float, grace_s: float | None) -> None:
        self.began_at, self._at = now, time.time()
        if grace_s is not None:
            self.grace_s = grace_s

    def shorten(self, grace_s: float) -> None:
        self.grace_s, self.is_hurried = grace_s, True

    def evidence(self, ranks: Sequence[RankState], folder: AttemptFolder) -> StopEvidence:
        """Return what the server makes a sentence of. ``saved`` is what a recipe's rank 0 left: its last step, and
        whether the checkpoint behind it is whole."""
        ended = [rank.ended_at for rank in ranks if rank.ended_at is not None]
        return StopEvidence(
            took_s=round(max(0.0, max(ended, default=self._at) - self._at), 3),
            grace_s=self.grace_s,
            killed=self.killed,
            hurried=self.is_hurried,
            saved=read_document(folder.stopped_path, SavedStep),
        )


def end_hung_exits(ranks: Sequence[RankState], folder: AttemptFolder) -> None:
    """End ranks whose script is over for some time, and whose process does not exit."""
    for rank in ranks:
        if rank.ended_at is not None or rank.exit_hang:
            continue
        with contextlib.suppress(FileNotFoundError):
            over_s = time.time() - folder.exit_path(rank.rank).stat().st_mtime
            if over_s > EXIT_GRACE_S:
                log.warning("rank.exit_hang", rank=rank.rank)
                rank.exit_hang = True
                for pid in (rank.pid, *descendants_of(rank.pid)):
                    send(pid, signal.SIGKILL)

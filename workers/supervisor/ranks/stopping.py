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
from workers.machine.processes import PROC, UNSEEN_S, descendants_of, send, start_of
from workers.supervisor.ranks.activity import Activity
from workers.supervisor.ranks.state import RankState

log = structlog.get_logger(__name__)

EXIT_GRACE_S = 60.0  # in which nothing is at work in a rank whose script is over, and no child of it lives
HELPERS = b"resource_tracker"  # of multiprocessing and of joblib: they live as long as their parent


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


class ExitWatch:
    """Ends ranks whose script is over, whose process does not exit, and in which nothing is at work any more. What
    their exit functions (atexit) and children do is the script's work still, however long it takes."""

    def __init__(self, folder: AttemptFolder, activity: Activity) -> None:
        self._folder = folder
        self._activity = activity
        self._busy_at: dict[int, float] = {}  # when the script was over, or a child lived last; monotonic
        self._looked_at = 0.0

    def update(self, ranks: Sequence[RankState]) -> None:
        now, before = time.monotonic(), self._looked_at
        self._looked_at = now
        for rank in ranks:
            if rank.ended_at is not None or rank.exit_hang or not self._folder.exit_path(rank.rank).exists():
                continue
            rank.is_exiting = not has_working_child(rank.pid)
            if rank.rank not in self._busy_at or not rank.is_exiting or now - before > UNSEEN_S:
                self._busy_at[rank.rank] = now
            if now - max(self._busy_at[rank.rank], self._activity.last_at(rank.rank)) > EXIT_GRACE_S:
                log.warning("rank.exit_hang", rank=rank.rank)
                rank.exit_hang = True
                for pid in (rank.pid, *descendants_of(rank.pid)):
                    send(pid, signal.SIGKILL)


def has_working_child(pid: int) -> bool:
    """Whether a descendant lives that is more than a helper of a library."""
    for child in descendants_of(pid):
        with contextlib.suppress(OSError):
            if start_of(child) is not None and HELPERS not in (PROC / str(child) / "cmdline").read_bytes():
                return True
    return False

"""End of an attempt's ranks: its cause, how long they may take, and the reason that the report gives."""

import time
from collections.abc import Sequence

import structlog

from trainyard.contract.base import to_builtins
from trainyard.contract.causes import HangFinding
from trainyard.contract.orders import Order
from trainyard.contract.reports import Reason, SavedStep, StopEvidence
from trainyard.spec.values.durations import grace_s as grace_of
from workers.attempt.documents import read_document
from workers.attempt.folder import AttemptFolder
from workers.supervisor.environment import CODE
from workers.supervisor.failure_sentences import reason_of
from workers.supervisor.ranks.state import RankState

log = structlog.get_logger(__name__)

# Seconds for ranks to save their state: after SIGTERM, and after one of them failed (they cannot step without it, and
# the next attempt waits for their end). Ranks that a person stops have the spec's grace, or what the server names.
GRACE_S = {
    "interrupted": 1.5, "lease_expired": 5.0, "stale_fence": 2.0, "folder_deleted": 5.0, "failed": 0.5, "hang": 0.0,
    CODE: 0.0,
}  # fmt: skip


class Ending:
    """The first cause is the reason; a shorter grace counts at any time."""

    def __init__(self, order: Order, folder: AttemptFolder) -> None:
        self._order, self._folder = order, folder
        self.cause: str | None = None
        self._at = 0.0  # when it began, in Unix seconds…
        self._began_at = 0.0  # …and monotonic
        self._grace_s = grace_of(order.spec)  # from SIGTERM to SIGKILL; what the server names goes before the spec's
        self._is_hurried = False  # the server has named a shorter grace while the ranks ended
        self._kill_at: float | None = None  # monotonic
        self._killed: list[int] = []

    def begin(self, cause: str, grace_s: float | None) -> bool:
        """Take note of a cause. Return whether it is the one for which the ranks are now to end."""
        now = time.monotonic()
        if self.cause is not None:
            self._hurry(cause, grace_s, now)
            return False
        log.info("attempt.ending", cause=cause)
        self.cause, self._at, self._began_at = cause, time.time(), now
        if cause == "stopped" and grace_s is not None:
            self._grace_s = grace_s
        self._kill_at = now + (self._grace_s if cause in ("stopped", "preempted") else GRACE_S[cause])
        return True

    def _hurry(self, cause: str, grace_s: float | None, now: float) -> None:
        if cause == self.cause == "stopped" and grace_s is not None and grace_s < self._grace_s:
            log.info("attempt.hurried", grace_s=grace_s)
            self._grace_s, self._is_hurried = grace_s, True
            self._kill_at = min(self._kill_at or now, max(now, self._began_at + grace_s))

    @property
    def is_over(self) -> bool:
        """Return whether the ranks that still live are to be killed."""
        return self._kill_at is not None and time.monotonic() >= self._kill_at

    def record_killed(self, ranks: Sequence[RankState]) -> None:
        for rank in ranks:
            rank.was_ended |= rank.ended_at is None
        self._killed = [rank.rank for rank in ranks if rank.was_ended]

    def reason(self, ranks: Sequence[RankState], hang: HangFinding | None, *, is_disk_full: bool) -> Reason | None:
        """Return the reason of the attempt's end on this node; None where all ranks have ended well."""
        reason = reason_of(self._order, ranks, self.cause, self._folder, hang, is_disk_full=is_disk_full)
        if reason is None:
            return None
        if self.cause == "stopped":
            reason.evidence = {**(reason.evidence or {}), **to_builtins(self._stop_evidence(ranks))}
        if self.cause in (reason.code, "hang"):
            reason.at = self._at  # ranks elsewhere may have ended because of it, before this report
        return reason

    def _stop_evidence(self, ranks: Sequence[RankState]) -> StopEvidence:
        """Return what the server makes a sentence of. ``saved`` is what a recipe's rank 0 left: its last step, and
        whether the checkpoint behind it is whole."""
        ended = [rank.ended_at for rank in ranks if rank.ended_at is not None]
        return StopEvidence(
            took_s=round(max(0.0, max(ended, default=self._at) - self._at), 3),
            grace_s=self._grace_s,
            killed=self._killed,
            hurried=self._is_hurried,
            saved=read_document(self._folder.stopped_path, SavedStep),
        )

"""Compaction, a slice at a time, in the process that writes: which run is next, and how far back it may go."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from django.db.models import Count, Max

from runs.records.logs import compaction as log_folding
from runs.records.logs.compaction import fold_lines
from runs.records.metrics.bulk import RunGone
from runs.records.metrics.models import Block, Segment, Telemetry
from runs.records.points.compaction.sealing import SEAL_AS_IT_LIES, fold_blocks, seal
from runs.records.points.segments import POINTS_PER_SEGMENT

log = structlog.get_logger(__name__)

BLOCKS = 64  # so many make a run due: each reader decodes them all
POINTS = 131_072  # or so many points
LAG_S = 5.0  # what is younger stays as it came: clients that missed a moment catch up with single batches
QUIET_S = 30.0
BEHIND_POINTS = 20_000_000  # with more than these waiting, or so many batches of one run, it does not wait for quiet
BEHIND_BATCHES = 512
LOOK_EVERY_S = 60.0  # at the database: other processes commit, too


@dataclass
class _Pending:
    """Pieces of a run that arrived since it was compacted."""

    at: float
    num_batches: int = 0
    num_points: int = 0
    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))  # when which cursor was reached


class Compactor:
    """Keeps which runs have something to compact. Only the process that ingests a run may compact it.

    note() records what was committed; slice() does a little of the work. After a restart the database shows what is
    pending.
    """

    def __init__(
        self, is_mine: Callable[[str], bool] = lambda run_id: True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_mine, self._clock = is_mine, clock
        self._pending: dict[str, _Pending] | None = None
        self._looked_at = float("-inf")

    def record(self, run_id: str, cursor: int, num_points: int) -> None:
        now = self._clock()
        pending = self._known().setdefault(run_id, _Pending(now))
        pending.at = now
        pending.num_batches += 1
        pending.num_points += num_points
        if not pending.marks or now - pending.marks[-1][0] >= LAG_S / 4:
            pending.marks.append((now, cursor))

    def slice(self, budget_s: float) -> bool:
        """Work for about ``budget_s`` (a step more than that at most). Returns whether there was anything to do."""
        end = time.monotonic() + budget_s
        did_something = False
        if self._clock() - self._looked_at >= LOOK_EVERY_S:
            self._look()
        while (run_id := self._next()) is not None:
            self._step(run_id)
            did_something = True
            if time.monotonic() >= end:
                break
        return did_something

    def is_behind(self) -> bool:
        """Return whether so much is pending that compaction cannot wait for an idle moment."""
        now = self._clock()
        due = [pending for pending in self._known().values() if self._is_due(pending, now)]
        return sum(pending.num_points for pending in due) > BEHIND_POINTS or any(
            pending.num_batches > BEHIND_BATCHES for pending in due
        )

    def _known(self) -> dict[str, _Pending]:
        if self._pending is None:
            self._pending = {}
            self._look()
        return self._pending

    def _look(self) -> None:
        """Find in the database what was committed before this process started, or by another one."""
        now = self._looked_at = self._clock()
        pending = self._known()
        for run_id, num_batches, num_points in _waiting():
            if run_id not in pending and self._is_mine(run_id):
                pending[run_id] = _Pending(now, num_batches, num_points)

    def _next(self) -> str | None:
        """Return the run with the most points among those that are due."""
        now = self._clock()
        due = [(pending.num_points, run_id) for run_id, pending in self._known().items() if self._is_due(pending, now)]
        return max(due)[1] if due else None

    def _is_due(self, pending: _Pending, now: float) -> bool:
        if now - pending.at >= QUIET_S:
            return True
        is_much = pending.num_batches >= BLOCKS or pending.num_points >= POINTS
        return is_much and bool(pending.marks) and now - pending.marks[0][0] >= LAG_S

    def _step(self, run_id: str) -> None:
        known = self._known()
        pending = known[run_id]
        now = self._clock()
        is_quiet = now - pending.at >= QUIET_S
        telemetry = Telemetry.objects.filter(pk=run_id).first()
        if telemetry is None:  # deleted
            del known[run_id]
            return
        bound = telemetry.cursor if is_quiet else max(cursor for at, cursor in pending.marks if now - at >= LAG_S)
        try:
            did_something = fold_blocks(run_id, bound) or seal(run_id, bound, is_quiet=is_quiet)
            if did_something or fold_lines(run_id, bound, is_quiet=is_quiet):
                return
        except RunGone as error:
            log.info("compact.run_gone", run=run_id, error=str(error))
        if is_quiet:
            del known[run_id]
            return
        while pending.marks and pending.marks[0][1] <= bound:
            pending.marks.popleft()
        pending.num_batches = pending.num_points = 0


def _waiting() -> list[tuple[str, int, int]]:
    """Return (run, batches, points) of the runs that have blocks, or segments or chunks that could be put together."""
    blocks = Block.objects.values_list("run_id").annotate(count=Count("pk"))
    found = {run_id: (count, 0) for run_id, count in blocks}
    places = Segment.objects.filter(is_sealed=False).values("series__run_id", "series", "attempt")
    for place in places.annotate(number=Count("pk"), longest=Max("count")):
        if place["number"] > 1 or place["longest"] >= SEAL_AS_IT_LIES:
            before = found.get(place["series__run_id"], (0, 0))
            found[place["series__run_id"]] = before[0], before[1] + POINTS_PER_SEGMENT
    for run_id in log_folding.waiting():
        found.setdefault(run_id, (0, 0))
    return [(run_id, *counts) for run_id, counts in found.items()]

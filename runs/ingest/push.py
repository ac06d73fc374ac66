"""Pushes of commits to the browsers, at most ten a second per run: batches in between are put together."""

from dataclasses import dataclass, field

from runs.ingest.commit import Committed
from runs.records.deltas.delta import EncodedDelta, delta, encode
from runs.records.points.store import SeriesPiece, StreamLines
from runs.serving import broadcast
from runs.serving.rates import Throttle

EVERY_S = 0.1
EVERY_REFETCH_S = 1.0  # who gets more than can be sent reads it back, and not ten times a second
EVERY_OVERVIEW_S = 2.0
EVERY_MEDIA_S = 1.0  # the pages of a run that logs images at each step look again so often
KEEP_POINTS = 50_000  # more than this is never sent, so it need not be held
FORGET_ABOVE = 1000  # throttles
MEDIA, OVERVIEW = "media", "overview"


@dataclass
class _Waiting:
    start: int
    cursor: int
    pieces: list[tuple[int, SeriesPiece]] = field(default_factory=list)
    lines: list[StreamLines] = field(default_factory=list)
    num_points: int = 0
    has_checkpoints: bool = False


class Push:
    """Collects committed batches and sends them when their run is due. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._with_media: set[str] = set()  # runs that have more to show than points, which nobody was told of
        self._throttles: dict[tuple[str, str], Throttle] = {}  # by run and what is sent

    def add(self, committed: Committed) -> None:
        if committed.cursor == committed.start:
            return
        waiting = self._waiting.setdefault(committed.run_id, _Waiting(committed.start, committed.cursor))
        if waiting.cursor not in (committed.start, committed.cursor):  # REST committed in between, and published it
            waiting = self._waiting[committed.run_id] = _Waiting(committed.start, committed.cursor)
        waiting.cursor = committed.cursor
        waiting.has_checkpoints |= committed.has_checkpoints
        if committed.has_media:
            self._with_media.add(committed.run_id)
        if waiting.num_points <= KEEP_POINTS:
            waiting.pieces += [(committed.attempt, piece) for piece in committed.pieces]
            waiting.lines += committed.lines
        waiting.num_points += sum(piece.columns.size for piece in committed.pieces)

    def flush(self, now: float, *, everything: bool = False) -> None:
        """Send what is due at ``now``, all in one go."""
        due = [run_id for run_id in self._waiting if everything or self._throttle(run_id).wait_s(now) == 0]
        media = {one for one in self._with_media if everything or self._throttle(one, MEDIA).wait_s(now) == 0}
        self._with_media -= media
        for run_id in media:
            self._throttle(run_id, MEDIA).record(now, every_s=EVERY_MEDIA_S)
        for run_id in sorted(media.union(run_id for run_id in due if self._waiting[run_id].has_checkpoints)):
            broadcast.run_changed(run_id)
        if due:
            batches = [(run_id, self._encoded(run_id, now).wire()) for run_id in due]
            broadcast.runs_progressed(batches, [run_id for run_id in due if self._is_news(run_id, now)])
        if not self._waiting and len(self._throttles) > FORGET_ABOVE:
            self._throttles.clear()

    def wait_s(self, now: float, at_most: float) -> float:
        """Seconds until the next run is due."""
        waits = [self._throttle(run_id).wait_s(now) for run_id in self._waiting]
        return min([at_most, *waits, *(self._throttle(run_id, MEDIA).wait_s(now) for run_id in self._with_media)])

    def _throttle(self, run_id: str, what: str = "") -> Throttle:
        return self._throttles.setdefault((run_id, what), Throttle(EVERY_S))

    def _encoded(self, run_id: str, now: float) -> EncodedDelta:
        waiting = self._waiting.pop(run_id)
        encoded = encode(delta(waiting.start, waiting.cursor, waiting.pieces, waiting.lines))
        self._throttle(run_id).record(now, every_s=EVERY_REFETCH_S if encoded.is_refetch else None)
        return encoded

    def _is_news(self, run_id: str, now: float) -> bool:
        """Return whether the overview is due for a message about the run, and set when the next one is."""
        throttle = self._throttle(run_id, OVERVIEW)
        is_due = throttle.wait_s(now) == 0
        if is_due:
            throttle.record(now, every_s=EVERY_OVERVIEW_S)
        return is_due


def push_now(committed: Committed) -> None:
    """Say at once that there is more: for a caller that has no loop. How often it is read is up to the readers, so
    many small batches cost those that watch no more than one."""
    if committed.has_media:
        broadcast.run_changed(committed.run_id)
    if committed.cursor != committed.start:
        broadcast.run_moved(committed.run_id, committed.cursor)

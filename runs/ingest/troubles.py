"""Troubles on the way of a run's records, counted by code, with a sentence; and dead letters, kept for a person to see.

The counts are ``Telemetry.troubles``. A trouble is never a reason to stop: what could be kept was kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, ProgrammingError
from django.utils import timezone
from redis.exceptions import RedisError

from runs.records.media.kinds import ANY_OF, ONE_OF
from runs.records.metrics.models import DeadLetter
from trainyard.contract.base import clean

BAD_FRAME = "bad_frame"
REFUSED_POINTS = "refused_points"
SERIES_LIMIT = "series_limit"
LOG_LIMIT = "log_limit"
REPEATED = "repeated"
GAP = "gap"
CLOCK_JUMP = "clock_jump"
CHECKPOINT_NOTES = "checkpoint_notes"
MEDIA_LIMIT = "media_limit"
FACTS_LIMIT = "facts_limit"
CONFIG_LIMIT = "config_limit"
# Reported by a producer itself, in a frame of kind ``lost``.
LOST_POINTS = "lost_points"
BAD_VALUES = "bad_values"
SPOOL_LIMIT = "spool_limit"

MAX_SERIES_PER_RUN = 500_000
MAX_MEDIA_PER_RUN = 20_000
MAX_MEDIA_BYTES = 2 * 1024**3  # of a run
CLOCK_JUMP_S = 300.0  # so far may a producer's clock go back, or be ahead of the server's, unremarked

# In the order in which they are shown: what lost something first. The first form is for one.
SENTENCES: dict[str, tuple[str, str]] = {
    LOST_POINTS: (
        "1 point was lost: it was logged faster than it could be written down.",
        "{count} points were lost: they were logged faster than they could be written down.",
    ),
    SPOOL_LIMIT: (
        "1 point was not kept: the spool on the node's disk was full, or its limit was reached.",
        "{count} points were not kept: the spool on the node's disk was full, or its limit was reached.",
    ),
    BAD_VALUES: (
        "1 value was not kept: it is no number, or its step is no whole number.",
        "{count} values were not kept: they are no numbers, or their step is no whole number.",
    ),
    SERIES_LIMIT: (
        f"1 point was not kept: a run has at most {MAX_SERIES_PER_RUN:,} series.",
        f"{{count}} points were not kept: a run has at most {MAX_SERIES_PER_RUN:,} series.",
    ),
    LOG_LIMIT: (
        "1 line of the log was not kept: the run has logged as much as this server keeps of one run.",
        "{count} lines of the log were not kept: the run has logged as much as this server keeps of one run.",
    ),
    MEDIA_LIMIT: (
        f"1 {ONE_OF} was not kept: a run has at most {MAX_MEDIA_PER_RUN:,} of them, of 2 GB.",
        f"{{count}} {ANY_OF} were not kept: a run has {MAX_MEDIA_PER_RUN:,}, of 2 GB.",
    ),
    FACTS_LIMIT: (
        "1 document of facts was not kept: a run has at most 10,000 of them.",
        "{count} documents of facts were not kept: a run has at most 10,000 of them.",
    ),
    CONFIG_LIMIT: (
        "1 configuration that the script stated was not kept: with what was there it has more than 1 MB.",
        "{count} configurations that the script stated were not kept: with what was there they have more than 1 MB.",
    ),
    BAD_FRAME: (
        "1 record came damaged or was none; it lies with the dead letters.",
        "{count} records came damaged or were none; they lie with the dead letters.",
    ),
    REFUSED_POINTS: (
        "1 record could not be stored as it was; it lies with the dead letters.",
        "{count} records could not be stored as they were; they lie with the dead letters.",
    ),
    CHECKPOINT_NOTES: (
        "1 word about a checkpoint was not kept: it was not for that attempt to say, or there were too many.",
        "{count} words about checkpoints were not kept: they were not for those attempts to say, or too many.",
    ),
    CLOCK_JUMP: (
        "A process's clock jumped, back or far ahead of the server's: look at this run by step.",
        "Clocks of processes jumped {count} times, back or far ahead of the server's: look at this run by step.",
    ),
    GAP: (
        "1 record came before the one it follows, and was asked for again.",
        "{count} records came before those they follow, and were asked for again.",
    ),
    REPEATED: (
        "1 record came again and was dropped; nothing is missing or doubled.",
        "{count} records came again and were dropped; nothing is missing or doubled.",
    ),
}


@dataclass(frozen=True)
class Trouble:
    code: str
    count: int
    sentence: str


def described(counts: Mapping[str, int]) -> list[Trouble]:
    """Return the troubles of a run (``Telemetry.troubles``) in words, what lost something first."""
    return [Trouble(code, counts[code], sentence(code, counts[code])) for code in SENTENCES if counts.get(code, 0) > 0]


def sentence(code: str, count: int) -> str:
    """Return the sentence for this many of one trouble. Raises KeyError for a code that is none."""
    one, many = SENTENCES[code]
    return one if count == 1 else many.format(count=f"{count:,}")


def added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of both; what is nought in ``more`` leaves no trace."""
    return dict(Counter(counts) + Counter(more))


def jumps(spoken: Iterable[float], before: float, ahead: float) -> tuple[int, float]:
    """Return how often a clock jumped, and what it shows now: back by more than CLOCK_JUMP_S from one time to the next
    (``before`` is the one before the first), or from a time below ``ahead`` to one above."""
    count = 0
    for at in spoken:
        if before - at > CLOCK_JUMP_S or at > ahead >= before:
            count += 1
        before = at
    return count, before


KEPT_BYTES = 64 * 1024  # of one
KEPT_PER_RUN = 200  # the newest
KEPT = 5_000  # of all, the newest
KEPT_DAYS = 30
# Errors that are not about the data: database or Valkey cannot work now, and the round is tried again. Any other error
# comes of what a node sent, and costs no more than the entry or the frame that raises it.
UNABLE = (OperationalError, InterfaceError, ProgrammingError, RedisError)
ROOM = 1_000  # so many are written between two prunings; what is beyond is counted on its run and logged


class Letters:
    """Writes dead letters, each once however often it comes, in the caller's transaction."""

    def __init__(self) -> None:
        self._room = ROOM

    def write(
        self,
        data: bytes | memoryview,
        reason: str,
        *,
        run_id: str = "",
        node_id: str = "",
        producer: str = "",
        sequence: int = 0,
        may_come_again: bool = False,
    ) -> bool:
        """Keep the data with the reason; False where there are too many, or, of what may come again, it did."""
        if self._room <= 0:
            return False
        letter: dict[str, Any] = {"run_id": run_id, "node_id": node_id, "producer": producer, "size": len(data)}
        letter |= {"sequence": sequence or None, "reason": clean(reason.replace("\x00", ""))[:1000]}
        letter["data"] = bytes(data[:KEPT_BYTES])
        if may_come_again and DeadLetter.objects.filter(**letter).exists():
            return False
        self._room -= 1
        DeadLetter.objects.create(**letter)
        return True

    def pruned(self) -> None:
        self._room = ROOM


def reason_of(error: Exception) -> str:
    """Return what a log and a dead letter say of it."""
    return (str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}")[:1000]


def prune() -> None:
    """Delete what is too old, and the oldest where there are too many, of a run or of all."""
    letters = DeadLetter.objects
    letters.filter(at__lt=timezone.now() - timedelta(days=KEPT_DAYS)).delete()
    seen: dict[str, int] = {}
    too_many = []
    for number, (pk, run_id) in enumerate(letters.order_by("-id").values_list("pk", "run_id").iterator()):
        seen[run_id] = seen.get(run_id, 0) + 1
        if number >= KEPT or (run_id and seen[run_id] > KEPT_PER_RUN):
            too_many.append(pk)
    for start in range(0, len(too_many), 500):
        letters.filter(pk__in=too_many[start : start + 500]).delete()

"""Dead letters: what could not be stored, kept for a person to look at, and never so much that it hurts."""

from datetime import timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, ProgrammingError
from django.utils import timezone
from redis.exceptions import RedisError

from runs.records.metrics.models import DeadLetter
from trainyard.contract.base import clean

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

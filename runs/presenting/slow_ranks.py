"""Ranks that slow a live run down, as remarks of its document."""

from __future__ import annotations

from runs.ingest.troubles import Trouble
from runs.life.watching.words import slow_sentences
from runs.models import Attempt

SLOW = "slow-ranks"
CODES = (SLOW,)


def remarks(attempt: Attempt) -> list[Trouble]:
    if attempt.ended_at is not None or not attempt.slow_ranks:
        return []
    found = attempt.stragglers
    return [Trouble(SLOW, len(found), " ".join(slow_sentences(found, num_ranks=attempt.world_size)))]

"""Messages of ranks at the start of an attempt, so that all of them decide alike."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

Value = TypeVar("Value")

PROBE_TIMEOUT_S = 5.0  # network file systems show a new name late
POLL_S = 0.05


def gather_all(value: Value) -> list[Value]:
    """Return the value of every rank, by rank. A collective of the default group."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def why_not_shared(folder: Path, fence: int, writers: Container[int]) -> str | None:
    """Return a sentence that says why ``writers`` cannot keep checkpoints in ``folder`` together, None where they can.

    Rank 0 leaves a word there, the others look for it, and each leaves one of its own. A collective of all ranks.
    """
    rank = dist.get_rank()
    word, trouble = secrets.token_hex(8), None
    if rank == 0:
        trouble = _leave(folder, _probe(folder, fence, 0), word)
    word, trouble = gather_all((word, trouble))[0]
    if trouble is None and rank > 0 and rank in writers:
        trouble = _look(_probe(folder, fence, 0), word) or _leave(folder, _probe(folder, fence, rank), word)
    troubles = gather_all(trouble)
    # All have looked.
    with suppress(OSError):
        _probe(folder, fence, rank).unlink(missing_ok=True)
    return next((trouble for trouble in troubles if trouble is not None), None)


def _probe(folder: Path, fence: int, rank: int) -> Path:
    return folder / f".probe.fence-{fence}.rank-{rank}"


def _leave(folder: Path, probe: Path, word: str) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text(word)
    except OSError as error:
        return (
            f"{socket.gethostname()} cannot write to {folder}: {error.strerror or error}; make it writable there, or "
            "set TRAINYARD_CHECKPOINTS of that node's worker to a folder that is"
        )
    return None


def _look(probe: Path, word: str) -> str | None:
    deadline = time.monotonic() + PROBE_TIMEOUT_S
    while True:
        try:
            if probe.read_text() == word:
                return None
        except OSError:
            pass
        if time.monotonic() > deadline:
            return (
                f"{socket.gethostname()} does not see in {probe.parent} what rank 0 has written there: the nodes of a "
                "run must share the folder, so set TRAINYARD_CHECKPOINTS of every node's worker to one that all mount"
            )
        time.sleep(POLL_S)

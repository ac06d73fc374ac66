"""The colour of a run, the same everywhere: which of the series colours follows from its id alone."""

from __future__ import annotations

from zlib import crc32

NUM_COLOURS = 10  # of static/css/tokens.css


def colour_of(run_id: str) -> int:
    """Return the index of the run's colour, from 0, where nobody chose another."""
    return crc32(run_id.encode()) % NUM_COLOURS

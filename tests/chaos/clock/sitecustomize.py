"""For a node whose clock somebody sets: once the file that CHAOS_CLOCK names is there, its time is later by as many
seconds as stand in it. The monotonic clock goes on, as a machine's does."""

from __future__ import annotations

import os
import time

_real = time.time
_path = os.environ.get("CHAOS_CLOCK", "")


def _shifted() -> float:
    try:
        with open(_path, "rb") as file:  # noqa: PTH123  # runs before everything, and on every call
            return _real() + float(file.read() or 0)
    except OSError:
        return _real()


if _path:
    time.time = _shifted

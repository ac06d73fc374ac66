"""Has the thread that asks the systems of engines look now: something of an allocation has changed in this process."""

from __future__ import annotations

import threading

changed = threading.Event()


def wake() -> None:
    changed.set()

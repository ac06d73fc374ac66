"""GPUs of the machine that are this node's: those that CUDA_VISIBLE_DEVICES names, as for any program.

Several nodes on one machine are given disjoint lists. A slot of the node is a place in that list.
"""

from __future__ import annotations

import os

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_indexes() -> list[int] | None:
    """Return the indexes of this node's GPUs; None where all are. As CUDA does, stop at the first that is none."""
    given = os.environ.get(VISIBLE)
    if given is None:
        return None
    indexes: list[int] = []
    for name in given.split(","):
        if not name.strip().isdecimal():
            break
        indexes.append(int(name))
    return indexes


def devices_of(slots: list[int]) -> str:
    """Return CUDA_VISIBLE_DEVICES for ranks that hold ``slots``."""
    visible = visible_indexes()
    return ",".join(str(slot if visible is None else visible[slot]) for slot in slots)

"""Keeps a process group that a script has destroyed until its end can no longer deadlock.

torch 2.13 ends gloo's threads in the destructor of the group. Where a DistributedDataParallel is the last to hold the
group, that destructor runs with the interpreter's lock held. One of those threads may wait for the lock at that moment:
the work of the last backward pass carries a Python object (``contextvars``, see ``torch.autograd.graph``), which the
thread is about to release. Each then waits for the other. A warm rank has ``torch._dynamo`` imported and comes from its
last step to its end fast enough to meet this in one of four runs; a cold one rarely does.

A group that we hold too is not ended with the model. When we release it, it ends without the lock, as in torch's own
binding.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

from workers.rank_process.group_formation import C10D, replace_everywhere

KEPT_S = 1.0  # a thread of gloo that waits for the lock gets it within milliseconds

_kept: list[tuple[float, Any]] = []


def keep_destroyed_groups() -> None:
    """Let ``destroy_process_group`` leave its groups with us. The next call releases those that are KEPT_S old."""
    module = sys.modules.get(C10D)
    if module is None:
        return
    original = module.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(*arguments: Any, **named: Any) -> Any:
        now = time.monotonic()
        groups = [(now, group) for group in module._world.pg_map]
        answer = original(*arguments, **named)
        _kept[:] = [one for one in _kept if now - one[0] < KEPT_S] + groups
        return answer

    replace_everywhere(original, destroy_process_group)

"""Records when a script's rank begins to form a process group, and when all ranks have met: seen from outside, a rank
that trains by itself looks like one that waits for another.

Only warm ranks are watched: whether a cold rank never forms a group or is only slow to start is not known.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workers.progress import marker
from workers.progress.sampler import start_sampler

C10D = "torch.distributed.distributed_c10d"


def can_watch() -> bool:
    """Return whether torch was imported ahead of the script, so that ranks forked from here are watched."""
    return C10D in sys.modules


def watch_group(joining: Path, joined: Path) -> None:
    """Have ``init_process_group`` make the file ``joining`` as it begins, and ``joined`` once the ranks have met.

    It is replaced wherever torch has it: a device mesh forms the group by a name of its own.
    """
    if not can_watch():
        return
    original, folder = sys.modules[C10D].init_process_group, Path.cwd()
    has_started = False

    @functools.wraps(original)
    def init_process_group(*arguments: Any, **named: Any) -> Any:
        _make(joining)
        try:
            answer = original(*arguments, **named)
        except BaseException:
            with contextlib.suppress(OSError):
                joining.unlink(missing_ok=True)
            raise
        _make(joined)
        nonlocal has_started
        if not has_started:
            has_started = True
            start_sampler(marker.own(), folder)
        return answer

    replace_everywhere(original, init_process_group)


def replace_everywhere(original: Callable[..., Any], other: Callable[..., Any]) -> None:
    """Put ``other`` wherever a module has the function ``original`` by its own name."""
    name = original.__name__
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is original:
            setattr(module, name, other)


def _make(path: Path) -> None:
    with contextlib.suppress(OSError):  # a full disk is no reason to train less
        path.touch()

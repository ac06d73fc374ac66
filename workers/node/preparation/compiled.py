"""Operators that torch compiles for scripts, such as DeepSpeed's: kept in the project's cache of the node."""

import contextlib
from pathlib import Path

import structlog

from trainyard.spooling.held_folder import HeldFolder

log = structlog.get_logger(__name__)

FOLDER = "user/torch_extensions"  # torch's place below XDG_CACHE_HOME


def remove_locks(cache: Path) -> None:
    """Remove the locks of compilations; the caller knows that no rank of the project compiles here. torch's lock is a
    file that its holder removes: that of a rank which was killed would keep all later ones waiting for ever."""
    with contextlib.suppress(OSError), HeldFolder.open(cache) as held:
        for name in [name for name, _ in held.walk(below=FOLDER) if name.endswith("/lock")]:
            held.remove(name)
            log.info("compilation.lock_removed", name=name)

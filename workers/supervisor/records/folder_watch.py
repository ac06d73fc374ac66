"""Waits until a file in a folder grows, without polling.

Linux has inotify, which Python reaches only through the C library. Elsewhere, and where there are no watches left, the
folder is polled. Either way a wait may end without a change.
"""

import contextlib
import ctypes
import os
import select
import sys
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

IN_MODIFY, IN_CREATE = 0x002, 0x100
POLL_S = 0.05


class FolderWatch:
    """Wakes one thread when something happened in the folder; ``wake`` may be called by any thread."""

    def __init__(self, folder: Path) -> None:
        self._read, self._write = os.pipe()
        self._inotify = _watch(folder)
        self._poll = select.poll()
        os.set_blocking(self._write, False)
        for descriptor in (self._read, self._inotify):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)
                self._poll.register(descriptor, select.POLLIN)

    def wait(self, limit_s: float) -> None:
        """Return when a file in the folder was made or has grown, when somebody called ``wake``, or when the time is
        over. What happened before the call counts."""
        if self._inotify < 0:
            limit_s = min(limit_s, POLL_S)
        for descriptor, _ in self._poll.poll(max(0.0, limit_s) * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, 65536)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it wakes anyway; closed: no thread waits any more
            os.write(self._write, b"!")

    def close(self) -> None:
        for descriptor in (self._read, self._write, self._inotify):
            if descriptor >= 0:
                os.close(descriptor)
        self._read = self._write = self._inotify = -1


def _watch(folder: Path) -> int:
    """Return an inotify descriptor for the folder, -1 where there is none to be had."""
    if not sys.platform.startswith("linux"):
        return -1
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor >= 0 and library.inotify_add_watch(descriptor, os.fsencode(folder), IN_MODIFY | IN_CREATE) < 0:
        os.close(descriptor)
        descriptor = -1
    if descriptor < 0:
        log.warning("watch.polling", folder=str(folder), error=os.strerror(ctypes.get_errno()))
    return descriptor

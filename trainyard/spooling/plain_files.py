"""Opening files in folders that a script writes, too: by their name alone, wherever a link of that name may lead."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path


def open_plain(path: Path) -> io.BufferedReader:
    """Open a regular file to read. Raises OSError, for links and for pipes too: a pipe would block who reads it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def create_plain(path: Path) -> io.BufferedWriter:
    """Make a file anew to write, in place of whatever has that name. Raises OSError."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")

"""Does something as the Unix user of a project's ranks, in a process that stays root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_user(user: int) -> Iterator[None]:
    """Open and make files as this user would; as who we are where it is below 0. Call it while the process has one
    thread."""
    if user < 0 or os.geteuid() != 0:
        yield
        return
    group, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def opened_by_user(path: Path, user: int, flags: int) -> int:
    """Return a descriptor of a file in a folder of the user's, made as they would. The folders on the way need not be
    open to them. A link is refused."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with as_user(user):
            return os.open(path.name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    finally:
        os.close(folder)

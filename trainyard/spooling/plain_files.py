"""Opening files in folders that a script writes, too: by their name alone, wherever a link of that name may lead."""

import errno
import io
import os
import stat
import threading
from functools import cache
from pathlib import Path


def open_plain(path: Path) -> io.BufferedReader:
    """Open a regular file to read, in a folder with a name that only we may change; others are for ``held_folder``.
    Raises OSError, for links and for pipes too: a pipe would block who reads it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(checked(descriptor, path.parent.stat().st_uid, str(path)), "rb")


def checked(descriptor: int, owner: int, name: str) -> int:
    """Return the descriptor of a file in a folder of the user ``owner``; closed, with OSError, where it is no regular
    one. To root it must be that user's, or root's; and where the kernel lets a script make hard links to files that it
    may not write, root's with this name alone. Else who backs a home up by hard links would hold its runs up.
    """
    facts = os.fstat(descriptor)
    is_own = facts.st_uid == owner or (facts.st_uid == 0 and (facts.st_nlink == 1 or are_hard_links_guarded()))
    if stat.S_ISREG(facts.st_mode) and (is_own or os.geteuid() != 0):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "is no regular file of its folder's user", name)


@cache
def are_hard_links_guarded() -> bool:
    """Return whether this kernel refuses a hard link to who may neither own nor write the file (proc_sys_fs(5))."""
    try:
        return int(Path("/proc/sys/fs/protected_hardlinks").read_text()) > 0
    except (OSError, ValueError):
        return False


def create_plain(path: Path) -> io.BufferedWriter:
    """Make a file anew to write, in place of whatever has that name. Raises OSError."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` in one step by a file that only its owner reads; other threads may write it, too."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    beside.replace(path)

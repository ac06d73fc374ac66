"""Opening files in folders that a script writes, too: by their name alone, wherever a link of that name may lead. And
files that are whole or not there, whenever the machine stops."""

import contextlib
import errno
import io
import os
import stat
import threading
from collections.abc import Callable
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


def write_private(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Replace ``path`` in one step by a file, once that is on the disk. But for another ``mode`` its owner alone reads
    it. Other threads may write it, too. Raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with create_plain(beside) as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    beside.replace(path)


def write_first(path: Path, text: str) -> None:
    """Make a file that its owner alone reads, unless another process was first: then what that one wrote counts."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mine = path.with_name(f".{path.name}.{os.getpid()}")
    write_private(mine, text)
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(mine)
    mine.unlink()


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, and put it there once it has reached the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        sync(temporary)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    # The rename itself is only on the disk when the folder is.
    sync(path.parent)


def sync(path: Path) -> None:
    """Return once the file's content, or the folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

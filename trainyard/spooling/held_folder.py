"""Works below a folder that somebody else writes: by the folder's descriptor, never by a path.

Whoever may write a folder may put a link in place of anything in it, also between two calls of ours, and a privileged
process that went by a path would follow it. Here a name is looked up from a held descriptor, no link on the way or at
its end is followed, and nothing leads out: by openat2 where the kernel has it, else part by part.

A file to read or to append to is a regular one, and no hard link to a file of somebody else.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import stat
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from trainyard.spooling.plain_files import checked

OPENAT2 = 437  # the number of the call, on every machine that Linux has but Alpha
NO_MAGIC_LINKS, NO_LINKS, BENEATH = 0x02, 0x04, 0x08
LOOK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_PASSES = 10_000  # over a folder that is removed: each empties one level, or somebody goes on filling it


class HeldFolder:
    """A folder whose descriptor is held; a context that closes it. Names are relative to it. Methods raise OSError."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._owner = os.fstat(descriptor).st_uid

    @classmethod
    def open(cls, path: Path) -> HeldFolder:
        """Hold the folder at ``path``, whose parents nobody else may write."""
        return cls(os.open(path, FOLDER))

    def __enter__(self) -> HeldFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def folder(self, name: str) -> HeldFolder:
        """Hold a folder below this one."""
        return HeldFolder(open_below(self.descriptor, name, FOLDER))

    def open_file(self, name: str) -> io.BufferedReader:
        """Open a regular file to read."""
        descriptor = open_below(self.descriptor, name, os.O_RDONLY | os.O_NONBLOCK)
        return os.fdopen(checked(descriptor, self._owner, name), "rb")

    def append(self, name: str) -> int:
        """Return a descriptor of a regular file to append to, made where there is none."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
        try:
            return open_below(self.descriptor, name, flags | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return checked(open_below(self.descriptor, name, flags), self._owner, name)

    def stat(self, name: str) -> os.stat_result:
        """Return what the kernel says of a name; of a link, of the link."""
        with self._parent(name) as (parent, last):
            return os.stat(last, dir_fd=parent, follow_symlinks=False)

    def real_name(self, name: str, path: Path) -> str:
        """Return the name of what the link ``name`` leads to, without links in it. ``path`` is this folder's own, for
        links that are absolute. Raises OSError, EXDEV for a link that leads out, or to this folder itself."""
        known: list[str] = []
        left = list(reversed(PurePosixPath(name).parts))
        num_links = 0
        while left:
            part = left.pop()
            if part == "..":
                if not known:
                    break
                known.pop()
                continue
            here = "/".join([*known, part])
            if not stat.S_ISLNK(self.stat(here).st_mode):
                known.append(part)
                continue
            num_links += 1
            if num_links > 40:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            with self._parent(here) as (parent, last):
                target = PurePosixPath(os.readlink(last, dir_fd=parent))
            if target.is_absolute():
                known = []
                if not target.is_relative_to(path):
                    break
                target = target.relative_to(path)
            left += reversed(target.parts)
        if not known:
            raise OSError(errno.EXDEV, "leads out of the folder", name)
        return "/".join(known)

    def walk(self, *, without: frozenset[str] = frozenset(), below: str = "") -> Iterator[tuple[str, os.stat_result]]:
        """Yield name and facts of everything that is no folder. What cannot be looked at is left out, and so are names
        longer than the kernel takes."""
        waiting = [below]
        while waiting:
            above = waiting.pop()
            try:
                with self.folder(above or ".") as folder, os.scandir(folder.descriptor) as entries:
                    here = sorted(found for one in entries for found in _facts_of(one))
            except OSError:
                continue
            names = [(f"{above}/{name}" if above else name, facts) for name, facts in here if name not in without]
            yield from ((name, facts) for name, facts in names if not stat.S_ISDIR(facts.st_mode))
            waiting += reversed([name for name, facts in names if stat.S_ISDIR(facts.st_mode)])

    def move(self, name: str, to: HeldFolder) -> None:
        """Move to the same name in another folder, in place of a file that is there."""
        with self._parent(name) as (parent, last), to._parent(name) as (other, _):
            os.rename(last, last, src_dir_fd=parent, dst_dir_fd=other)

    def remove(self, name: str) -> None:
        """Remove what is no folder; of a link, the link."""
        with self._parent(name) as (parent, last):
            os.unlink(last, dir_fd=parent)

    @contextlib.contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that holds the name, and the name's last part."""
        above, _, last = name.rpartition("/")
        if last in ("", ".", ".."):
            raise OSError(errno.EINVAL, "is no name below a folder", name)
        descriptor = open_below(self.descriptor, above or ".", FOLDER)
        try:
            yield descriptor, last
        finally:
            os.close(descriptor)


def _facts_of(entry: os.DirEntry[str]) -> list[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError):  # it may have gone meanwhile, and the others have not
        return [(entry.name, entry.stat(follow_symlinks=False))]
    return []


def open_below(folder: int, name: str, flags: int) -> int:
    """Return a descriptor of what has this name below the folder, made with mode 0600 where ``flags`` say so. No link
    is followed. Raises OSError."""
    parts = PurePosixPath(name).parts or (".",)
    if name.startswith("/") or ".." in parts or "\0" in name:  # C would take what stands before it for the name
        raise OSError(errno.EXDEV, "leads out of the folder", name)
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    if has_openat2():
        return _openat2(folder, name, flags)
    return _open_part_by_part(folder, parts, flags)


def remove_tree(path: Path) -> None:
    """Remove the folder, or what else has that name, as far as that is possible; its parents are ours. Depth costs no
    descriptor and no recursion: what lies deeper is moved up before it is emptied."""
    with contextlib.suppress(OSError):
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode):
                top = _open_to_empty(path.name, parent)
                try:
                    _empty(top)
                finally:
                    os.close(top)
                os.rmdir(path.name, dir_fd=parent)
            else:
                os.unlink(path.name, dir_fd=parent)
        finally:
            os.close(parent)


def give_to(path: Path, user: int) -> None:
    """Make the folder and all in it the user's, but links, and files that have a name outside of it too: those may be
    somebody else's. Raises OSError."""
    with HeldFolder.open(path) as top:
        names = Counter((facts.st_dev, facts.st_ino) for _, facts in top.walk())
        waiting = ["."]
        while waiting:
            above = waiting.pop()
            with top.folder(above) as folder, os.scandir(folder.descriptor) as entries:
                for entry in entries:
                    if _give(folder.descriptor, entry.name, user, names):
                        waiting.append(f"{above}/{entry.name}")
        os.fchown(top.descriptor, user, user)


def _give(folder: int, name: str, user: int, names: Counter[tuple[int, int]]) -> bool:
    """Make it the user's, if it may be, and return whether it is a folder."""
    descriptor = open_below(folder, name, LOOK)
    try:
        facts = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(facts.st_mode)
        is_known = facts.st_nlink <= names[facts.st_dev, facts.st_ino]
        if is_folder or (is_known and not stat.S_ISLNK(facts.st_mode)):
            os.chown(f"/proc/self/fd/{descriptor}", user, user)  # fchown takes no descriptor that only looks
        return is_folder
    finally:
        os.close(descriptor)


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


@cache
def has_openat2() -> bool:
    """Return whether this kernel has the call, and nothing filters it."""
    if sys.platform != "linux":  # macOS ends a process by SIGSYS that makes a call of a number which is none there
        return False
    try:
        os.close(_openat2(-100, ".", LOOK))
    except OSError:
        return False
    return True


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(folder: int, name: str, flags: int) -> int:
    how = _How(flags, 0o600 if flags & os.O_CREAT else 0, BENEATH | NO_LINKS | NO_MAGIC_LINKS)
    path, size = os.fsencode(name), ctypes.c_size_t(ctypes.sizeof(how))
    while (descriptor := _library().syscall(ctypes.c_long(OPENAT2), folder, path, ctypes.byref(how), size)) < 0:
        # Not EAGAIN: whoever holds a lease on the file (fcntl) would keep us trying for 45 s, each time.
        if (number := ctypes.get_errno()) != errno.EINTR:
            raise OSError(number, os.strerror(number), name)
    return int(descriptor)


def _open_part_by_part(folder: int, parts: tuple[str, ...], flags: int) -> int:
    held = [folder]
    try:
        for part in parts[:-1]:
            held.append(os.open(part, LOOK | os.O_DIRECTORY, dir_fd=held[-1]))
        return os.open(parts[-1], flags, 0o600, dir_fd=held[-1])
    finally:
        for descriptor in held[1:]:
            os.close(descriptor)


def _open_to_empty(name: str, parent: int) -> int:
    descriptor = os.open(name, FOLDER, dir_fd=parent)
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o700)
    return descriptor


def _empty(top: int) -> None:
    before: set[str] = set()
    for _ in range(MAX_PASSES):
        here = _entries(top)
        if set(here) == before:  # the rest cannot be removed
            return
        before = set(here)
        for name, is_folder in here.items():
            with contextlib.suppress(OSError):
                if is_folder:
                    _empty_into(top, name)
                else:
                    os.unlink(name, dir_fd=top)


def _empty_into(top: int, name: str) -> None:
    """Remove a folder once the folders in it lie beside it."""
    inner = _open_to_empty(name, top)
    try:
        for one, is_folder in _entries(inner).items():
            with contextlib.suppress(OSError):
                if is_folder:
                    os.close(_open_to_empty(one, inner))  # to move it changes it
                    os.rename(one, f".{uuid.uuid4().hex}", src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(one, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _entries(folder: int) -> dict[str, bool]:
    """Return the names in the folder, and of each whether it is a folder."""
    with os.scandir(folder) as entries:
        return {one.name: one.is_dir(follow_symlinks=False) for one in entries}

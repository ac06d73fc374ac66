"""Sandbox of one process, which keeps users' code from the files of the server and the node.

Where the node worker is root, the process becomes another Unix user, one for each project. Where mount namespaces are
to be had, it also gets a view of the disk in which the home of Trainyard is empty but for its own folders. An ordinary
user gets such a view by a user namespace, and stays the user that they are.

``enter`` is called once, by the process itself, while it has one thread. Nothing here starts a program or asks a name
service: it runs in a fork of the warm process, within milliseconds.
"""

import os
import resource
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from workers import kernel
from workers.kernel import bind, make_read_only, mount
from workers.sandbox import cgroups, seccomp

ROOT = Path(__file__).resolve().parents[2]

TEMPORARY = ("/tmp", "/var/tmp")  # which every user of a machine shares
SANDBOX = "TRAINYARD_SANDBOX"  # the variable in which a program that is started gets its sandbox


class Mechanism(StrEnum):
    """Mechanisms that keep a script from the server's files, the strongest first."""

    USER_AND_NAMESPACE = "user and namespace"
    USER = "user"
    NAMESPACE = "namespace"
    NONE = "none"

    @property
    def is_other_user(self) -> bool:
        return self in (Mechanism.USER, Mechanism.USER_AND_NAMESPACE)

    @property
    def has_namespace(self) -> bool:
        return self in (Mechanism.NAMESPACE, Mechanism.USER_AND_NAMESPACE)


class Sandbox(msgspec.Struct, frozen=True):
    """Reach of one process. Paths are absolute; those of ``shown`` and ``own`` exist already.

    ``hidden`` folders are empty for it, except for what ``shown`` (to read) and ``own`` (to write) name inside them.
    ``user`` is its user's and its group's number where the mechanism has another user.
    """

    mechanism: Mechanism = Mechanism.NONE
    user: int = -1
    groups: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    temporary: str = ""  # one of ``own``: it is what the process finds as /tmp and /var/tmp; empty: the machine's
    processes: int = 0  # that the user may have at most, threads counted; 0: as many as the machine allows
    is_filtered: bool = False  # the kernel refuses it the calls of workers.sandbox.seccomp
    holder: int = 0  # the process that holds the namespaces of its attempt, 0: it has none of its own
    has_own_network: bool = False  # of the holder
    cgroup: str = ""  # folder of the control group that it joins
    data_bytes: int = 0  # of memory that the process may take, where no control group limits it; 0: no limit


def enter(sandbox: Sandbox) -> None:
    """Confine this process, for good. Raises OSError; then it must not go on, since it may be confined only in part.

    With a ``holder`` it must have been forked into the holder's PID namespace. The parent-death signal is lost where
    the user changes: ask for it again.
    """
    if sandbox.cgroup:
        cgroups.join(Path(sandbox.cgroup))
    if sandbox.data_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (sandbox.data_bytes, sandbox.data_bytes))
    if sandbox.mechanism == Mechanism.NONE:
        return
    if sandbox.holder:
        for kind in ("ipc", "net") if sandbox.has_own_network else ("ipc",):
            kernel.join(sandbox.holder, kind)
    if sandbox.mechanism.has_namespace:
        _hide_folders(sandbox)
    if sandbox.mechanism.is_other_user:
        _change_user(sandbox)
    kernel.drop_capabilities()  # a user namespace gave us all of them, over the view that we just built
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # a change of user forbade core dumps and debuggers of one's own
    if sandbox.is_filtered:
        seccomp.filter_calls()


def _hide_folders(sandbox: Sandbox) -> None:
    if sandbox.mechanism == Mechanism.NAMESPACE:
        _own_user_namespace()
    else:
        kernel.unshare(kernel.CLONE_NEWNS)
    mount(None, "/", None, kernel.MS_REC | kernel.MS_SLAVE)  # nothing of what follows is seen outside
    covered = {folder for folder in sandbox.hidden if Path(folder).is_dir()}
    if sandbox.mechanism.is_other_user:
        covered |= _closed_folders({*our_programs(), *sandbox.own, *sandbox.shown})
    shared = {os.path.realpath(one) for one in TEMPORARY if sandbox.temporary and Path(one).is_dir()}
    hiding = covered | shared
    covered = {place for place in covered if not any(Path(place).is_relative_to(one) for one in shared)}
    programs = {place for place in our_programs() if any(Path(place).is_relative_to(one) for one in hiding)}
    shown = {*sandbox.shown, *programs}
    # Opened before anything is covered: afterwards their paths lead nowhere.
    umask = os.umask(0o022)  # what is made to lead there is for its user to pass
    with _opened([*shown, *sandbox.own]) as descriptors:
        if sandbox.mechanism == Mechanism.NAMESPACE:
            # What a process of our user could write, and others of ours would then run.
            for program in sorted((place for place in our_programs() if os.access(place, os.W_OK)), key=len):
                bind(program, program, is_writable=False)
        for place in sorted({*covered, *shared, *descriptors}, key=len):  # what holds others comes first
            if place in shared:
                bind(f"/proc/self/fd/{descriptors[sandbox.temporary]}", place, is_writable=True)
            elif place in covered:
                Path(place).mkdir(parents=True, exist_ok=True)  # inside of another that is covered it is gone by now
                mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0755,size=1m")
            else:
                _show(descriptors[place], place, is_writable=place in sandbox.own, shared=shared)
    if sandbox.mechanism.is_other_user and covered:
        _name_user(sandbox.user, Path(min(covered)))
    sealed = kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    for folder in covered:
        mount(None, folder, None, sealed, "mode=0755,size=1m")
    if sandbox.holder:  # lists the processes of its own PID namespace alone
        mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    os.umask(umask)
    os.chdir("/")  # a working folder of before would still lead to what is covered now


def _name_user(user: int, folder: Path) -> None:
    """Give the user a name in this view: programs such as Java ask for it. ``folder`` is one of ours in memory, and
    keeps the file: Linux makes no disk read-only that has a deleted file in use."""
    file, users = folder / ".passwd", Path("/etc/passwd")
    with suppress(OSError):
        file.write_text(f"{users.read_text()}\nproject:x:{user}:{user}::/:/bin/sh\n")
        bind(os.fspath(file), os.fspath(users), is_writable=False)


def _own_user_namespace() -> None:
    """An unprivileged way to mounts of one's own: in it we have the user that we had, and no other."""
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _closed_folders(places: Iterable[str]) -> set[str]:
    """Return the outermost folders on the way to each place that others may not enter: they are covered, and what is
    needed of them is shown."""
    found = set()
    for place in places:
        for folder in reversed(Path(place).parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                found.add(os.fspath(folder))
                break
    return found


def our_programs() -> set[str]:
    return {os.path.realpath(place) for place in (ROOT, sys.prefix, sys.base_prefix)} - {"/"}


def _change_user(sandbox: Sandbox) -> None:
    if sandbox.processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (sandbox.processes, sandbox.processes))
    os.setgroups(sandbox.groups)
    os.setresgid(sandbox.user, sandbox.user, sandbox.user)
    os.setresuid(sandbox.user, sandbox.user, sandbox.user)


@contextmanager
def _opened(places: Iterable[str]) -> Iterator[dict[str, int]]:
    descriptors: dict[str, int] = {}
    try:
        for place in places:
            descriptors[place] = os.open(place, os.O_PATH | os.O_CLOEXEC)
        yield descriptors
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _show(descriptor: int, place: str, *, is_writable: bool, shared: Iterable[str]) -> None:
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    source = f"/proc/self/fd/{descriptor}"
    root = next((one for one in shared if Path(place).is_relative_to(one)), "")
    if not root:
        Path(place).mkdir(parents=True, exist_ok=True)
        bind(source, place, is_writable=is_writable)
        return
    with _made_inside(root, place, is_folder=is_folder) as target:
        mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    if not is_writable:
        with _made_inside(root, place, is_folder=is_folder) as target:  # now what was mounted
            make_read_only(target)


@contextmanager
def _made_inside(root: str, place: str, *, is_folder: bool) -> Iterator[str]:
    """Yield a path of the place, made where it is not there. ``root`` is the attempt's own temporary folder, in which
    its ranks may have put links that lead elsewhere: none is followed, since we may still be root."""
    way = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parts = Path(place).relative_to(root).parts
        for number, name in enumerate(parts, 1):
            if number < len(parts) or is_folder:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=way)
                inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=way)
            else:
                with suppress(FileExistsError):
                    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=way))
                inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=way)
                if stat.S_ISLNK(os.fstat(inner).st_mode):
                    os.close(inner)
                    raise OSError(f"{place} is a link in the attempt's own temporary folder")
            os.close(way)
            way = inner
        yield f"/proc/self/fd/{way}"
    finally:
        os.close(way)

"""Calls of the Linux kernel that Python 3.11 does not have: namespaces, mounts, capabilities."""

import ctypes
import os
import platform
import sys

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC = 32, 1024, 2048, 4096, 16384
MS_SLAVE, MS_RELATIME = 1 << 19, 1 << 21
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER = 1, 4, 15, 22, 36
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522
BPF = {"x86_64": 321, "aarch64": 280}  # the number of the system call
# Flags of a mount as statvfs reports them, and those that keep them: a remount in a user namespace may drop none.
KEPT_FLAGS = (
    (os.ST_NOSUID, MS_NOSUID),
    (os.ST_NODEV, MS_NODEV),
    (os.ST_NOEXEC, MS_NOEXEC),
    (os.ST_NOATIME, MS_NOATIME),
    (os.ST_NODIRATIME, MS_NODIRATIME),
    (os.ST_RELATIME, MS_RELATIME),
)

# Loaded once and before any fork: dlopen in a forked child may meet a lock that a thread of the parent held.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def unshare(flags: int) -> None:
    """Leave the namespaces of these kinds for new ones. A new PID namespace is for children only."""
    _call("unshare", flags)


def join(pid: int | str, kind: str) -> None:
    """Enter the namespace of another process: ``kind`` is ``ipc``, ``net`` or ``pid``, which is for children only."""
    descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", descriptor, 0, about=kind)
    finally:
        os.close(descriptor)


def prctl(option: int, value: object, second: object = 0) -> None:
    _call("prctl", option, value, second, 0, 0)


def bpf(command: int, attributes: bytes) -> int:
    """Return the descriptor that bpf(2) gives. Raises OSError."""
    number = BPF.get(platform.machine())
    if _libc is None or number is None:
        raise OSError(f"bpf is not known on {sys.platform} {platform.machine()}")
    given = ctypes.create_string_buffer(attributes, len(attributes))
    descriptor: int = _libc.syscall(number, command, given, len(attributes))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf: {os.strerror(error)}")
    return descriptor


def drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _call("capset", header, nothing)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _call("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3], about=target)


def bind(source: str, place: str, *, is_writable: bool) -> None:
    mount(source, place, None, MS_BIND | MS_REC)
    if not is_writable:
        make_read_only(place)


def make_read_only(place: str) -> None:
    flags = os.statvfs(place).f_flag
    kept = sum(flag for reported, flag in KEPT_FLAGS if flags & reported)
    mount(None, place, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def _call(name: str, *arguments: object, about: str = "") -> None:
    if _libc is None:
        raise OSError(f"{name} is Linux's")
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {about}: {os.strerror(number)}".replace(" :", ":"))

"""The calls of the kernel that a sandbox of level 2 may not make: a filter of the process, for good.

It lists what a rank never needs, and lets all else pass, as new libraries make calls that nobody has listed. What it
refuses leads out of the namespaces, or to parts of the kernel that are the machine's: mounts, namespaces, modules,
clocks, keys, tracing of the whole machine, io_uring, which no filter sees into. A refused call fails with EPERM.

``clone3`` fails with ENOSYS: its flags lie in memory, where no filter reads, and libraries then use ``clone``. ptrace
and process_vm_readv are allowed, for debuggers: in its PID namespace a process sees those of its attempt alone.
"""

import ctypes
import errno
import platform
import struct
from typing import NamedTuple

from workers.kernel import PR_SET_SECCOMP, prctl

FILTER_MODE = 2
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, JUMP_IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # the second with an errno in its low half
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24  # places in what the filter sees of a call
X32 = 0x40000000  # calls of x86-64 with short pointers have numbers from here on
NEW_NAMESPACE = 0x7E020000  # any flag of clone that makes one
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # type into a terminal as if somebody sat there

# The same numbers everywhere: newer calls.
SHARED = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
          "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "quotactl_fd": 443,
          }  # fmt: skip
REFUSED = {
    "x86_64": {"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
               "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "add_key": 248, "request_key": 249,
               "keyctl": 250, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313,
               "delete_module": 176, "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179,
               "syslog": 103, "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159,
               "sethostname": 170, "setdomainname": 171, "name_to_handle_at": 303, "open_by_handle_at": 304,
               "iopl": 172, "ioperm": 173, "vhangup": 153},
    "aarch64": {"mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
                "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "add_key": 217, "request_key": 218,
                "keyctl": 219, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273,
                "delete_module": 106, "reboot": 142, "swapon": 224, "swapoff": 225, "acct": 89, "quotactl": 60,
                "syslog": 116, "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171,
                "sethostname": 161, "setdomainname": 162, "name_to_handle_at": 264, "open_by_handle_at": 265,
                "vhangup": 58},
}  # fmt: skip


class Machine(NamedTuple):
    """Numbers of the kernel's calls on one architecture."""

    audit: int
    clone: int
    clone3: int
    ioctl: int


MACHINES = {"x86_64": Machine(0xC000003E, 56, 435, 16), "aarch64": Machine(0xC00000B7, 220, 435, 29)}


class Instruction(NamedTuple):
    """``to`` and ``otherwise`` name places to jump to; empty: the next instruction."""

    code: int
    value: int
    to: str = ""
    otherwise: str = ""


def problem() -> str:
    """Return why this machine has no filter, empty where it has one."""
    name = platform.machine()
    return "" if name in MACHINES else f"no filter of system calls is known for {name}"


def filter_calls() -> None:
    """Refuse these calls to this process and to all that it starts. It must have no-new-privileges. Raises OSError."""
    if why := problem():
        raise OSError(errno.ENOSYS, why)
    program = assembled(platform.machine())
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.addressof(buffer))
    prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.byref(header))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def assembled(machine: str) -> bytes:
    """Return the filter for a machine of this kind, as the kernel reads it."""
    own = MACHINES[machine]
    numbers = sorted({**SHARED, **REFUSED[machine]}.values())
    lines: list[tuple[str, Instruction]] = [
        ("", Instruction(LOAD, ARCHITECTURE)),
        ("", Instruction(JUMP_IF_EQUAL, own.audit, otherwise="refuse")),
        ("", Instruction(LOAD, NUMBER)),
        ("", Instruction(JUMP_IF_AT_LEAST, X32, to="refuse")),
        ("", Instruction(JUMP_IF_EQUAL, own.clone3, to="unknown")),
        ("", Instruction(JUMP_IF_EQUAL, own.clone, to="clone")),
        ("", Instruction(JUMP_IF_EQUAL, own.ioctl, to="ioctl")),
        *(("", Instruction(JUMP_IF_EQUAL, number, to="refuse")) for number in numbers),
        ("allow", Instruction(RETURN, ALLOW)),
        ("clone", Instruction(LOAD, FIRST_ARGUMENT)),
        ("", Instruction(JUMP_IF_ANY_BIT, NEW_NAMESPACE, to="refuse", otherwise="allowed")),
        ("ioctl", Instruction(LOAD, SECOND_ARGUMENT)),
        ("", Instruction(JUMP_IF_EQUAL, TIOCSTI, to="refuse")),
        ("", Instruction(JUMP_IF_EQUAL, TIOCLINUX, to="refuse", otherwise="allowed")),
        ("allowed", Instruction(RETURN, ALLOW)),
        ("unknown", Instruction(RETURN, FAIL | errno.ENOSYS)),
        ("refuse", Instruction(RETURN, FAIL | errno.EPERM)),
    ]
    places = {name: number for number, (name, _) in enumerate(lines) if name}
    return b"".join(_packed(line, number, places) for number, (_, line) in enumerate(lines))


def _packed(line: Instruction, number: int, places: dict[str, int]) -> bytes:
    jumps = [places[name] - number - 1 if name else 0 for name in (line.to, line.otherwise)]
    return struct.pack("HBBI", line.code, *jumps, line.value)

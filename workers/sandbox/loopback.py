"""A guard of the loopback: ranks of one project are not reached by those of another on the same machine.

PyTorch's store, its gloo and NCCL, TensorBoard and the like ask nobody for a password, and each project has a Unix user
of its own. So two small programs in the kernel (BPF, attached to the control groups of version 2) look at each packet
that stays on this machine, to the loopback or to an address of its own: the first writes the sending project's user
into it, the second drops it where the receiving socket is another project's. Other users' packets pass, which the node
needs for sessions and apps. The guard ends with the last process that holds one.
"""

import contextlib
import ctypes
import errno
import os
import select
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from workers.kernel import bpf

PROG_LOAD, LINK_CREATE = 5, 28  # commands of bpf(2)
CGROUP_SKB, INGRESS, EGRESS = 8, 0, 1  # the type of the programs, and where they are attached
PRIORITY, INTERFACE = 32, 40  # offsets in __sk_buff. The priority stays with a packet, and no firewall reads it here
LOOPBACK = 1  # the interface's number in every network namespace
SOCKET_USER = 47  # the kernel's function that returns the user of the packet's socket
OWN_ANSWER_S, OTHERS_ANSWER_S = 5.0, 0.1  # a busy machine lets one's own wait, too

Row = tuple[int, int, int, int, int]  # code, target, source, offset of a jump or in memory, number
# Instructions with the registers that both programs use: r6 has the packet, r7 the sender's user.
KEEP_PACKET: Row = (0xBF, 6, 1, 0, 0)
INTO_R1: Row = (0xBF, 1, 6, 0, 0)
READ_USER: Row = (0x85, 0, 0, 0, SOCKET_USER)
WRITE_USER: Row = (0x63, 6, 0, PRIORITY, 0)
READ_SENDER: Row = (0x61, 7, 6, PRIORITY, 0)
EXIT: Row = (0x95, 0, 0, 0, 0)
PASS: tuple[Row, ...] = ((0xB7, 0, 0, 0, 1), EXIT)
DROP: tuple[Row, ...] = ((0xB7, 0, 0, 0, 0), EXIT)


class Guard:
    """Holds from here to ``close``, or to the end of this process. Raises OSError where the machine refuses it."""

    def __init__(self, users: tuple[int, int]) -> None:
        """``users``: the first number of projects' users, and how many there are."""
        self._users = users
        self._links: list[int] = []
        self.hold()

    def hold(self) -> None:
        """Call it now and then: the kernel takes no more than 64. Where those of others hold, which are the same, ours
        follows once one of them ends."""
        try:
            if not self._links:
                self._attach()
        except OSError as error:
            self.close()
            if error.errno != errno.E2BIG:
                raise

    def _attach(self) -> None:
        with contextlib.ExitStack() as opened:
            group = os.open(_control_groups(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, group)
            for rows, place in ((sending(*self._users), EGRESS), (receiving(*self._users), INGRESS)):
                program = _load(rows, place)
                opened.callback(os.close, program)
                self._links.append(bpf(LINK_CREATE, struct.pack("=4I", program, group, place, 0)))

    def close(self) -> None:
        while self._links:
            os.close(self._links.pop())


def sending(first: int, number: int) -> list[Row]:
    """Return the program that writes who sends."""
    return [
        KEEP_PACKET, (0x61, 2, 1, INTERFACE, 0), (0x55, 2, 0, 5, LOOPBACK),  # else pass
        READ_USER, (0xBC, 1, 0, 0, 0), (0x17, 1, 0, 0, first), (0x35, 1, 0, 1, number),  # no project's: pass
        WRITE_USER, *PASS,
    ]  # fmt: skip


def receiving(first: int, number: int) -> list[Row]:
    """Return the program that drops what another project sent."""
    return [
        KEEP_PACKET, (0x61, 2, 1, INTERFACE, 0), (0x55, 2, 0, 11, LOOPBACK),
        READ_SENDER, (0xBF, 1, 7, 0, 0), (0x17, 1, 0, 0, first), (0x35, 1, 0, 7, number),
        INTO_R1, READ_USER, (0xBC, 1, 0, 0, 0), (0x17, 1, 0, 0, first), (0x35, 1, 0, 2, number),
        (0x1D, 0, 7, 1, 0), (0x05, 0, 0, 2, 0),  # the same: pass; another: drop
        *PASS, *DROP,
    ]  # fmt: skip


def why_not_guarded(users: tuple[int, int]) -> str:
    """Return why this machine has no guard, empty where one holds: a connection of another project's user is tried.
    For a process of its own that is root."""
    try:
        guard = Guard(users)
    except OSError as error:
        return str(error)
    try:
        own = _is_reached(users[0], users[0], OWN_ANSWER_S)
        other = _is_reached(users[0], users[0] + 1, OTHERS_ANSWER_S)
    finally:
        guard.close()
    return "" if own and not other else f"it was tried and does not hold (own project: {own}, another: {other})"


def _is_reached(listener: int, caller: int, within_s: float) -> bool:
    """Return whether the one user reaches a port of the other."""
    with socket.socket() as listening, socket.socket() as calling:
        os.fchown(listening.fileno(), listener, listener)  # whose socket it is to the kernel, as if they had made it
        os.fchown(calling.fileno(), caller, caller)
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        calling.setblocking(False)
        calling.connect_ex(listening.getsockname())
        return bool(select.select([], [calling], [], within_s)[1])


def _control_groups() -> Path:
    """Return where the control groups of version 2 begin. Raises OSError."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        if back.startswith("cgroup2 "):
            return Path(front.split()[4])
    raise OSError("this machine mounts no control groups of version 2")


def _load(rows: Sequence[Row], place: int) -> int:
    code = b"".join(struct.pack("=BBhi", code, target | source << 4, offset, number)
                    for code, target, source, offset, number in rows)  # fmt: skip
    instructions, license_name = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"")
    attributes = struct.pack(
        "=IIQQIIQIi16sII", CGROUP_SKB, len(rows), ctypes.addressof(instructions), ctypes.addressof(license_name),
        0, 0, 0, 0, 0, b"trainyard", 0, place,
    )  # fmt: skip
    return bpf(PROG_LOAD, attributes)

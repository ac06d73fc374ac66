"""The namespaces that the ranks of one attempt share on a node, and the process that holds them.

A process enters a PID namespace by being forked into it. So the supervisor forks the holder and the ranks between
``begin`` and ``finish``: they are its children as ever, and it sees their pids, while they see those of their attempt
alone. The holder is process 1 in there: it reaps orphans, and the kernel kills all the others as it ends.

The supervisor has one thread meanwhile: the kernel refuses threads to a process whose children belong elsewhere.
"""

import contextlib
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import msgspec

from workers.kernel import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWPID, PR_SET_NAME, PR_SET_PDEATHSIG, join, prctl, unshare
from workers.sandbox.process import Sandbox, enter

SET_ADDRESS, SET_FLAGS = 0x8916, 0x8914  # requests to a network interface
UP_AND_RUNNING = 0x1 | 0x8 | 0x40  # of a loopback
REAP_EVERY_S = 5.0


class NamespaceHolder:
    """``pid`` is the holder's, 0 without one."""

    def __init__(self) -> None:
        self.pid = 0

    @contextmanager
    def for_children(self, *, address: str = "") -> Iterator[None]:
        """Fork what belongs into new namespaces inside of this. ``address``: they get a network of their own, in which
        this is an address of the loopback. Raises OSError."""
        unshare(CLONE_NEWPID)
        try:
            self.pid = _start(address)
            yield
        finally:
            join("self", "pid")

    def close(self) -> None:
        """End the holder, and with it all processes of the namespaces. Our children among them are reaped by then."""
        if self.pid:
            with contextlib.suppress(ChildProcessError):  # it was reaped, and its pid may be another's by now
                if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                    os.kill(self.pid, signal.SIGKILL)
                    os.waitpid(self.pid, 0)
            self.pid = 0


def enter_alone(sandbox: Sandbox) -> None:
    """Confine this process as ``enter`` does. Where the sandbox has namespaces it goes on as a child in a PID namespace
    of its own, in which all that it starts ends with it: the process that was called waits for it and ends as it does.
    Call it while there is one thread."""
    if not sandbox.is_filtered:
        enter(sandbox)
        return
    holder = NamespaceHolder()
    with holder.for_children():
        pid = os.fork()
    if pid == 0:
        enter(msgspec.structs.replace(sandbox, holder=holder.pid))
        return
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    holder.close()
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


@contextmanager
def inside_of(holder: int) -> Iterator[None]:
    """Fork into the PID namespace of this holder what is forked inside of this; nothing changes where it is 0."""
    if holder:
        join(holder, "pid")
    try:
        yield
    finally:
        if holder:
            join("self", "pid")


def inside_pid(pid: int) -> int:
    """Return the pid that a process of ours has in its own namespace."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return pid
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), pid)


def _start(address: str) -> int:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _hold(writer, address)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    if answer != b"ready":
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise OSError(f"namespaces: {answer.decode(errors='replace') or 'their holder ended'}")
    return pid


def _hold(writer: int, address: str) -> NoReturn:
    """Become process 1 of the namespaces. It runs nobody's code and ends with its parent."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_NAME, b"ty-init")
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        unshare(CLONE_NEWIPC | (CLONE_NEWNET if address else 0))
        if address:
            _raise_loopback(address)
        os.write(writer, b"ready")
    except BaseException as error:
        os.write(writer, str(error).encode())
        os._exit(1)
    os.closerange(0, 1 << 16)
    while True:
        signal.sigtimedwait([signal.SIGCHLD], REAP_EVERY_S)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _raise_loopback(address: str) -> None:
    """Switch the loopback on, and give it the node's address: ranks meet there as they would outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SET_FLAGS, struct.pack("16sH14x", b"lo", UP_AND_RUNNING))
        if not address.startswith("127."):
            own = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, SET_ADDRESS, own)

"""The node's warm process: has torch imported and does nothing but fork. Run by the node worker, never by hand.

``python -m workers.forking.zygote SOCKET LIFELINE`` gets descriptors: a socket to the node worker, whose end-of-file
ends it, and the lifeline pipe of ``up`` (-1 where there is none), which its supervisors watch. It runs no user code and
no operator of torch: a fork from a process whose thread pools have worked hangs.
"""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections import deque
from pathlib import Path
from typing import NoReturn

from trainyard.contract.base import BadDocument, decode, encode
from trainyard.spooling.held_folder import HeldFolder
from workers.attempt.documents import Forked, Ready, StartRequest
from workers.attempt.folder import AttemptFolder

# Modules that supervisors and ranks need are imported here, once, and shared by all of them.
from workers.machine import processes
from workers.machine.safe_output import make_output_safe
from workers.supervisor.main import supervise
from workers.training.startup.warm import LATER_MODULES, warm

MOST_CHARACTERS = 300  # of the error that a sentence has
LOOK_EVERY_S = 0.5
MAX_FOLDERS = 8  # of the attempts that were forked last
MAX_REQUEST_BYTES = 1 << 16


def main() -> int:
    channel = socket.socket(fileno=int(sys.argv[1]))
    lifeline = int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is handled by the node worker
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # process reapers are reaped by the kernel
    processes.name_process("ty-zygote")
    warm_up()
    gc.collect()
    gc.freeze()
    send(channel, Ready(os.getpid(), processes.num_threads()))
    later = LaterImports()
    while True:
        if not select.select([channel], [], [], later.pause_s)[0]:
            later.look()
            continue
        if (received := receive(channel)) is None:
            return 0
        data, descriptor = received
        try:
            request = decode(data, StartRequest, is_secret=True)
        except BadDocument as error:
            print(f"a request is refused: {error}", file=sys.stderr, flush=True)
            os.close(descriptor)
            send(channel, Forked(error=str(error)))
            continue
        threads = processes.num_threads()
        assert threads == 1, f"a zygote with {threads} threads must not fork"
        pid = os.fork()
        if pid == 0:
            channel.close()
            become_reaper(request, notify=descriptor, lifeline=lifeline)
        os.close(descriptor)
        send(channel, Forked(pid))
        later.add(request.folder)


def warm_up() -> None:
    """Import what ranks will need. A machine without torch still runs scripts that need none."""
    try:
        warm()
    except ImportError:
        traceback.print_exc()
        print("the warm process has no torch: ranks that need it fail", file=sys.stderr, flush=True)


def send(channel: socket.socket, answer: Ready | Forked) -> None:
    channel.sendall(encode(answer).encode() + b"\n")


def receive(channel: socket.socket) -> tuple[bytes, int] | None:
    """Return the next request's line and the descriptor sent with it; None at end-of-file."""
    data = b""
    descriptors: list[int] = []
    while not data.endswith(b"\n"):
        part, found, _, _ = socket.recv_fds(channel, MAX_REQUEST_BYTES, 1)
        if not part:
            return None
        data += part
        descriptors += found
    return data, descriptors[0]


# Modules that the warm process imports once a rank has used them, so that the next rank finds them there.
#
# A rank that ends leaves a mark for each module of LATER_MODULES that it had imported. Only names of that list are
# ever imported, whatever a script writes into its folder.


class LaterImports:
    """Modules that the warm process may still import, and the folders in which ranks leave their marks."""

    def __init__(self) -> None:
        self._left = list(LATER_MODULES)
        self._folders: deque[AttemptFolder] = deque(maxlen=MAX_FOLDERS)

    @property
    def pause_s(self) -> float | None:
        """Seconds to wait for a request before the next look; None where there is nothing to look for."""
        return LOOK_EVERY_S if self._left and self._folders else None

    def add(self, folder: str) -> None:
        self._folders.append(AttemptFolder(Path(folder)))

    def look(self) -> None:
        """Import what a rank has used. An import that fails is not tried again."""
        for name in list(self._left):
            if any(os.path.lexists(folder.imported_path(name)) for folder in self._folders):
                self._left.remove(name)
                import_module(name)


def import_module(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # whatever the package does: the ranks go on without it
        traceback.print_exc()
    gc.collect()
    gc.freeze()


# The process reaper between the warm process and a supervisor: when the supervisor ends, all of its processes end.


def become_reaper(request: StartRequest, *, notify: int, lifeline: int) -> NoReturn:
    """Turn the forked child of the zygote into a process reaper, and its child into the supervisor. Never returns."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    processes.adopt_orphans()
    processes.name_process("ty-reaper")
    _own_descriptors(Path(request.folder), keep={notify, lifeline})
    supervisor = os.fork()
    if supervisor == 0:
        _become_supervisor(request, notify, lifeline)
    os.close(notify)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            break
    processes.kill_children()
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _become_supervisor(request: StartRequest, notify: int, lifeline: int) -> NoReturn:
    reaper = os.getppid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    processes.adopt_orphans()
    processes.name_process("ty-supervisor")
    make_output_safe()  # its log may lie on a full disk
    # SIGKILL would end the supervisor and leave the ranks' children without anybody to end them.
    signal.signal(signal.SIGUSR1, lambda *_: _kill_tree(Path(request.folder)))
    processes.die_with_parent(signal.SIGUSR1, reaper)
    code = 1
    try:
        code = supervise(request, notify=notify, lifeline=lifeline)
    except BaseException as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            AttemptFolder(Path(request.folder)).error_mark.write_text(
                f"{type(error).__name__}: {error}"[:MOST_CHARACTERS]
            )
    finally:
        sys.stderr.flush()
        os._exit(code)


def _kill_tree(folder: Path) -> NoReturn:
    """Without a reaper nothing holds the tree together: end it. The node worker reports it, with the proof."""
    with contextlib.suppress(OSError):
        AttemptFolder(folder).reaper_mark.touch()
    processes.kill_children()
    os._exit(1)


def _own_descriptors(folder: Path, keep: set[int]) -> None:
    """Leave the zygote's descriptors; ours are the supervisor's log and what ``keep`` names."""
    with HeldFolder.open(AttemptFolder(folder).logs) as logs:
        log = logs.append("supervisor.log")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for descriptor in set(processes.open_descriptors()) - keep:
        with contextlib.suppress(OSError):  # the one that listed the folder is closed already
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())

"""The process reaper between the warm process and a supervisor: when the supervisor ends, all of its processes end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from trainyard.spooling.held_folder import HeldFolder
from workers.attempt.folder import AttemptFolder
from workers.attempt.zygote_messages import StartRequest
from workers.machine.processes import adopt_orphans, die_with_parent, kill_children, name_process, open_descriptors
from workers.machine.safe_output import make_output_safe
from workers.supervisor.main import supervise

MOST_CHARACTERS = 300  # of the error that a sentence has


def become_reaper(request: StartRequest, *, notify: int, lifeline: int) -> NoReturn:
    """Turn the forked child of the zygote into a process reaper, and its child into the supervisor. Never returns."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    adopt_orphans()
    name_process("ty-reaper")
    _own_descriptors(Path(request.folder), keep={notify, lifeline})
    supervisor = os.fork()
    if supervisor == 0:
        _become_supervisor(request, notify, lifeline)
    os.close(notify)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            break
    kill_children()
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _become_supervisor(request: StartRequest, notify: int, lifeline: int) -> NoReturn:
    reaper = os.getppid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    adopt_orphans()
    name_process("ty-supervisor")
    make_output_safe()  # its log may lie on a full disk
    # SIGKILL would end the supervisor and leave the ranks' children without anybody to end them.
    signal.signal(signal.SIGUSR1, lambda *_: _kill_tree(Path(request.folder)))
    die_with_parent(signal.SIGUSR1, reaper)
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
    kill_children()
    os._exit(1)


def _own_descriptors(folder: Path, keep: set[int]) -> None:
    """Leave the zygote's descriptors; ours are the supervisor's log and what ``keep`` names."""
    with HeldFolder.open(AttemptFolder(folder).logs) as logs:
        log = logs.append("supervisor.log")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for descriptor in set(open_descriptors()) - keep:
        with contextlib.suppress(OSError):  # the one that listed the folder is closed already
            os.close(descriptor)

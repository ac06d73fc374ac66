"""A pipe that nobody writes to: its end-of-file says that whoever started us is gone, however it went. And a process's
own end, without delay."""

import contextlib
import os
import signal
import sys
import threading
import time
from typing import NoReturn

VARIABLE = "TRAINYARD_LIFELINE"


def watch(*, grace_s: float = 3.0) -> bool:
    """Stop this process, from a thread of our own, when the pipe ends.

    Returns False, and does nothing, where TRAINYARD_LIFELINE names no pipe. To stop is to send ourselves SIGTERM, and
    to exit without ceremony when that has not helped within ``grace_s``.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return False
    descriptor = int(given)
    os.set_inheritable(descriptor, False)  # a program that we start must be handed it on purpose
    threading.Thread(target=_wait, args=(descriptor, grace_s), name="lifeline", daemon=True).start()
    return True


def stop(grace_s: float) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os._exit(1)


def leave(code: int = 0) -> NoReturn:
    """End a process that has closed all that is to be closed. An interpreter takes its modules apart first: 0.8 s of
    processor time for one of the site's, five seconds on a busy machine, and `up` would kill it meanwhile."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _wait(descriptor: int, grace_s: float) -> None:
    with contextlib.suppress(OSError):  # it is no descriptor of ours: nobody holds the other end
        while os.read(descriptor, 64):
            pass
    stop(grace_s)

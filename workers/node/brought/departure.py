"""Departure of a node that an engine brought: once its attempt is over here, or when its machine is taken back.

Whoever lends the machine may send a notice, which is SIGURG, some time before it takes the machine back. The ranks are
asked to save and end then. The signal is one that ranks, which may get it too, ignore.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

import structlog

from trainyard.spooling.held_folder import remove_tree
from workers.node.brought.leftovers import KeepAlive
from workers.node.worker import NodeWorker

log = structlog.get_logger(__name__)

NOTICE = signal.SIGURG
LOOK_EVERY_S = 0.5
READ_S = 3.0  # control reads the last status meanwhile
GRACE_S = 30  # from SIGTERM until the lender kills, where it does not say
LAST_STEPS_S = 5.0  # of that, for the node worker itself


class Departure(threading.Thread):
    """Ends the node worker at the right moment."""

    def __init__(self, node: NodeWorker, attempt: str, home: Path, grace_s: float = GRACE_S) -> None:
        """``grace_s``: from SIGTERM until the machine is taken."""
        super().__init__(name="departure", daemon=True)
        self._node = node
        self._attempt = attempt
        self._home = home
        self._grace_s = grace_s
        self._alive = KeepAlive(home)
        self._noticed = threading.Event()
        self._is_told = False

    def take_notice(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._noticed.set()

    def run(self) -> None:
        signal_name = NOTICE.name
        while not self._node.is_done_with(self._attempt):
            self._alive.show()
            if self._noticed.wait(LOOK_EVERY_S) and not self._is_told:
                self._is_told = True
                log.warning("node.notice", signal=signal_name, attempt=self._attempt)
                self._node.end_ranks()
            elif self._is_told:
                time.sleep(LOOK_EVERY_S)
        log.info("node.leaves", attempt=self._attempt)
        time.sleep(READ_S)
        os.kill(os.getpid(), signal.SIGTERM)

    def finish(self) -> None:
        """After the last command: end what still runs, and leave nothing behind that the server has."""
        self._node.end_ranks()
        self._node.wait_for_supervisors(max(1.0, self._grace_s - LAST_STEPS_S))
        if self._node.is_done_with(self._attempt):
            remove_tree(self._home)

"""A node that an engine brought for one attempt: its join token, its departure, and what dead ones left beside it.

It leaves once its attempt is over here, or when its machine is taken back. Whoever lends the machine may send a notice,
which is SIGURG, some time before it takes the machine back. The ranks are asked to save and end then. The signal is one
that ranks, which may get it too, ignore.
"""

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType

import structlog

from trainyard.spooling.held_folder import remove_tree
from workers.node.worker import NodeWorker
from workers.transport.node_config import CannotStart

log = structlog.get_logger(__name__)

NOTICE = signal.SIGURG
LOOK_EVERY_S = 0.5
READ_S = 3.0  # control reads the last status meanwhile
GRACE_S = 30  # from SIGTERM until the lender kills, where it does not say
LAST_STEPS_S = 5.0  # of that, for the node worker itself
SHOW_EVERY_S = 60.0
KEPT_S = 3 * 86_400.0  # a system may suspend a job for a day, and a person may want what was not sent
MOST = 20  # in one sweep: removing many files may take long on a shared file system
PREFIX = ".dead-"  # of a folder that is being removed


class Departure(threading.Thread):
    def __init__(self, node: NodeWorker, attempt: str, home: Path, grace_s: float = GRACE_S) -> None:
        """``grace_s``: from SIGTERM until the machine is taken."""
        super().__init__(name="departure", daemon=True)
        self._node, self._attempt, self._home, self._grace_s = node, attempt, home, grace_s
        self._alive_due_at = 0.0
        self._noticed = threading.Event()
        self._is_told = False

    def take_notice(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._noticed.set()

    def run(self) -> None:
        while not self._node.is_done_with(self._attempt):
            self.show_alive()
            if self._noticed.wait(LOOK_EVERY_S) and not self._is_told:
                self._is_told = True
                log.warning("node.notice", signal=NOTICE.name, attempt=self._attempt)
                self._node.end_ranks()
            elif self._is_told:
                time.sleep(LOOK_EVERY_S)
        log.info("node.leaves", attempt=self._attempt)
        time.sleep(READ_S)
        os.kill(os.getpid(), signal.SIGTERM)

    def show_alive(self) -> None:
        """Touch the file by which other nodes see that this one lives."""
        if time.monotonic() < self._alive_due_at:
            return
        self._alive_due_at = time.monotonic() + SHOW_EVERY_S
        try:
            alive_file(self._home).touch()
        except OSError as error:  # a full disk; a folder that a person has removed
            log.warning("node.alive_unwritten", path=str(alive_file(self._home)), error=str(error))

    def finish(self) -> None:
        """End what still runs after the last command, and leave nothing behind that the server has."""
        self._node.end_ranks()
        self._node.wait_for_supervisors(max(1.0, self._grace_s - LAST_STEPS_S))
        if self._node.is_done_with(self._attempt):
            remove_tree(self._home)


# Folders of nodes that died before they could leave: the next node that an engine brings there removes them.
#
# The folders of all machines may lie on one shared file system, where no process can see whether those of another
# machine live. So each living node touches a file in its own folder now and then. Only a folder with such a file,
# long untouched, is removed: what the node of another kind keeps is not ours.


def alive_file(home: Path) -> Path:
    return home / "alive"


def sweep(home: Path) -> int:
    """Remove what dead nodes left beside the folder ``home``; return how many folders went. Nodes that start together
    may do so at once: whoever renames a folder removes it."""
    try:
        alive_file(home).touch()
        now = alive_file(home).stat().st_mtime  # by the clock of the file system, as all others
        found = list(home.parent.iterdir())
    except OSError as error:
        log.warning("leftovers.unread", path=str(home.parent), error=str(error))
        return 0
    dead = list(islice(_dead(found, home, now), MOST))
    for folder in dead:
        remove_tree(folder)
    if dead:
        log.info("leftovers.removed", folders=len(dead), path=str(home.parent))
    return len(dead)


def _dead(found: list[Path], home: Path, now: float) -> Iterator[Path]:
    """Yield the folders to remove, under the name that says so."""
    for folder in found:
        with suppress(OSError):  # another node was faster
            if folder == home or folder.is_symlink() or not folder.is_dir():
                continue
            if folder.name.startswith(PREFIX):  # a sweep that was killed
                yield folder
            elif now - alive_file(folder).stat().st_mtime > KEPT_S:
                yield folder.rename(folder.with_name(f"{PREFIX}{uuid.uuid4().hex}"))


def token_for(tokens: str | None, machine: int) -> str | None:
    """Return the token of this machine among those of all machines of the attempt. Raises CannotStart."""
    words = (tokens or "").split()
    if not words:
        return None
    if machine >= len(words):
        raise CannotStart(f"There are join tokens for {len(words)} machines, and this is number {machine}, from 0.")
    return words[machine]


def token_in(path: Path) -> str:
    """Return the token that the file holds. Raises CannotStart."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise CannotStart(f"The join token cannot be read from {path}: {error}.") from error

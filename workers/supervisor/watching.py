"""Looks at the ranks that run: how each ended, what it does, what keeps it, and whether it has met the others."""

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import structlog

from trainyard.contract.desired import TraceRequest
from workers.attempt.documents import write_document
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import PROC, UNSEEN_S, Exit, descendants_of, send, start_of, tcp_sockets
from workers.progress.marker import Marks
from workers.rank_process.cold_rank import marks_in
from workers.supervisor.hangs.watch import HangWatch
from workers.supervisor.ranks.activity import Activity
from workers.supervisor.ranks.state import RankState
from workers.supervisor.starting import Starting
from workers.supervisor.valkey_thread import EXCHANGE_EVERY_S

log = structlog.get_logger(__name__)

LISTEN = "0A"
EXIT_GRACE_S = 60.0  # in which nothing is at work in a rank whose script is over, and no child of it lives
HELPERS = b"resource_tracker"  # of multiprocessing and of joblib: they live as long as their parent


class Watching:
    """Records in the ranks what it finds. It ends none but those that do not exit by themselves (``ExitWatch``)."""

    def __init__(self, started: Starting) -> None:
        order, folder = started.order, started.folder
        assert started.go is not None
        self.ranks = started.ranks
        self._folder = folder
        self._spec = order.spec
        self._confinement = started.confinement
        self._launch = started.launch
        self._activity = Activity(folder)
        self._exits = ExitWatch(folder, self._activity)
        marks: list[Callable[[], Marks]] = [one.read for one in self._confinement.waiting.markers]
        if self._launch.is_cold:
            marks = [partial(marks_in, folder.marks_path(rank.rank)) for rank in self.ranks]
        self._hangs = HangWatch(order, folder, marks, self._activity)
        self._groups_due_at = 0.0
        # Rank 0 of a torch process group listens at MASTER_PORT from its beginning to its end. A cold rank is an
        # interpreter of the user's own and is not watched, but the kernel lists its sockets.
        has_port = self._launch.is_cold and order.world_size > 1 and self.ranks[0].rank == 0
        self._port = started.go.master_port if has_port else 0
        self._trace_id: str | None = None  # the last one that was written for the ranks

    @property
    def has_ended(self) -> bool:
        return all(rank.ended_at is not None for rank in self.ranks)

    @property
    def has_failed(self) -> bool:
        """Return whether a rank ended in a way that ends all."""
        return any(rank.is_fatal(self._spec) for rank in self.ranks)

    def step(self) -> bool:
        """Look at all ranks. Returns whether that changes the report."""
        has_news = self._update_groups()
        self._confinement.keep()
        has_news |= self._activity.update(self.ranks)
        self._exits.update(self.ranks)
        has_news |= self._hangs.update(self.ranks)
        if self._port and not self.ranks[0].has_listened:
            self.ranks[0].has_listened = is_listening(self._port, self._confinement.sockets)
        return has_news

    def take_exit(self, pid: int, status: int) -> bool:
        """Take in that a child has ended. Returns whether it was a rank; others are orphans that we adopted."""
        for rank in self.ranks:
            if rank.pid == pid and rank.ended_at is None:
                ending, user = Exit.of(status), self._confinement.user
                # Podman ends with 128 and the number of the signal that ended its container.
                ending = ending.through_shell() if self._launch.containers else ending
                rank.end(ending, time.time(), self._folder, is_cold=self._launch.is_cold, user=user)
                self._confinement.record_memory(rank)
                log.info("rank.ended", rank=rank.rank, exit_code=rank.exit_code, signal=rank.signal)
                return True
        return False

    def pass_trace(self, trace: TraceRequest | None) -> None:
        """Write for the ranks, once, which steps are to be traced."""
        if trace is None or trace.id == self._trace_id:
            return
        self._trace_id = trace.id
        try:
            write_document(self._folder.trace_path, trace, mode=0o644)  # its ranks may be another user
        except OSError as error:
            log.warning("trace.unwritten", error=str(error))

    def _update_groups(self) -> bool:
        if time.monotonic() < self._groups_due_at:
            return False
        self._groups_due_at = time.monotonic() + EXCHANGE_EVERY_S
        changed = [rank.update_group(self._folder) for rank in self.ranks if rank.ended_at is None]
        return any(changed)  # of all of them, also where the first has changed


def is_listening(port: int, proc: Path = Path("/proc/self/net")) -> bool | None:
    """Return whether a TCP socket listens at ``port``, None where the kernel does not list sockets (it is no Linux).
    ``proc``: where it lists those of the network that is meant."""
    sockets = [words for _, words in tcp_sockets(proc)]
    if any(words[3] == LISTEN and words[1].rpartition(":")[2] == f"{port:04X}" for words in sockets):
        return True
    return False if (proc / "tcp").exists() or (proc / "tcp6").exists() else None


class ExitWatch:
    """Ends ranks whose script is over, whose process does not exit, and in which nothing is at work any more. What
    their exit functions (atexit) and children do is the script's work still, however long it takes."""

    def __init__(self, folder: AttemptFolder, activity: Activity) -> None:
        self._folder, self._activity = folder, activity
        self._busy_at: dict[int, float] = {}  # when the script was over, or a child lived last; monotonic
        self._looked_at = 0.0

    def update(self, ranks: Sequence[RankState]) -> None:
        now, before = time.monotonic(), self._looked_at
        self._looked_at = now
        for rank in ranks:
            if rank.ended_at is not None or rank.exit_hang or not self._folder.exit_path(rank.rank).exists():
                continue
            rank.is_exiting = not has_working_child(rank.pid)
            if rank.rank not in self._busy_at or not rank.is_exiting or now - before > UNSEEN_S:
                self._busy_at[rank.rank] = now
            if now - max(self._busy_at[rank.rank], self._activity.last_at(rank.rank)) > EXIT_GRACE_S:
                log.warning("rank.exit_hang", rank=rank.rank)
                rank.exit_hang = True
                for pid in (rank.pid, *descendants_of(rank.pid)):
                    send(pid, signal.SIGKILL)


def has_working_child(pid: int) -> bool:
    """Return whether a descendant lives that is more than a helper of a library."""
    for child in descendants_of(pid):
        with contextlib.suppress(OSError):
            if start_of(child) is not None and HELPERS not in (PROC / str(child) / "cmdline").read_bytes():
                return True
    return False

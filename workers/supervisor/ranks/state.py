"""The state of one rank, as its supervisor sees it."""

import contextlib
from pathlib import Path

from trainyard.contract.base import SpecDocument
from trainyard.contract.reports import RankError, RankReport
from trainyard.spec.sections.parallel import outlives_workers
from workers.attempt.documents import RankExit, read_document
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import Exit
from workers.supervisor.failure_sentences import explained
from workers.supervisor.ranks.tracebacks import TRACEBACK_BYTES, ending_in, last_text


class RankState(RankReport, kw_only=True):
    pid: int
    started_at: float  # Unix seconds
    inner_pid: int = 0  # of its process in the container, which ``pid`` runs
    is_exiting: bool = False  # its script is over, and no child of it lives

    @property
    def main_pid(self) -> int:
        """The process that executes the script."""
        return self.inner_pid or self.pid

    def find_inner(self, path: Path) -> None:
        """Read the file into which Podman writes the pid of the container."""
        with contextlib.suppress(OSError, ValueError):
            self.inner_pid = self.inner_pid or int(path.read_text())

    @property
    def has_failed(self) -> bool:
        return self.ended_at is not None and (self.signal is not None or self.exit_code != 0)

    def is_fatal(self, spec: SpecDocument) -> bool:
        """Return whether its end ends all ranks, since no other can step without it. A run that outlives its workers
        does so once they are together; before that, rank 0 would wait for a worker that never comes."""
        return self.has_failed and not (outlives_workers(spec) and self.rank != 0 and self.has_joined)

    def update_group(self, folder: AttemptFolder) -> bool:
        """Find out how far a watched rank is with its process group. Returns whether that changed."""
        if self.group in ("unknown", "joined"):
            return False
        before = self.group, self.waiting_since
        if folder.joined_path(self.rank).exists():
            self.group, self.waiting_since = "joined", None
        else:
            try:
                self.group, self.waiting_since = "waiting", folder.joining_path(self.rank).stat().st_mtime
            except OSError:
                self.group, self.waiting_since = "none", None
        return before != (self.group, self.waiting_since)

    def end(self, ending: Exit, at: float, folder: AttemptFolder, *, is_cold: bool = False, user: int = -1) -> None:
        """Record the rank's end. ``user``: its Unix user, where that is another than the node's."""
        self.ended_at = at
        self.exit_code, self.signal = ending
        self.update_group(folder)
        self.has_joined = folder.joined_path(self.rank).exists()
        error = read_document(folder.error_path(self.rank), RankError)
        if error is None and is_cold and self.exit_code == 1:  # Python's, by an exception: others a script chose
            error = ending_in(last_text(folder.stream_path(self.rank, "stderr"), TRACEBACK_BYTES))
        self.error = error and explained(
            error, folder.code, has_joined=self.has_joined, has_no_torchrun=not self.has_torchrun, user=user
        )
        recorded = read_document(folder.exit_path(self.rank), RankExit) if self.exit_hang else None
        if recorded is not None and recorded.exit_code:  # it had failed before
            self.exit_code, self.signal = recorded.exit_code, None

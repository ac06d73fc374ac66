"""The folder of one node that the server started on this host: what was planned, who keeps it, how it ended.

Each step may be interrupted and repeated. The keeper makes the folder ``claim`` before all else, so that of two
keepers only one starts a node.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.contract.calls import HostJob, HostJobState
from trainyard.spooling.held_folder import remove_tree
from trainyard.spooling.plain_files import write_private
from workers.machine.processes import Process, is_alive, send

CLAIM_LIMIT_S = 10.0  # from a claim to the keeper's own mark; without one it was killed between them
START_LIMIT_S = 8.0
MAX_QUOTED = 400
BOOT = Path("/proc/sys/kernel/random/boot_id")
T = TypeVar("T", bound=WireStruct)


class KeeperMark(WireStruct):
    """Keeper of the node: a process of this boot."""

    pid: int
    start: int  # in clock ticks since boot
    boot: str
    at: float


class EndMark(WireStruct):
    exit_code: int
    at: float


@dataclass(frozen=True)
class JobFolder:
    path: Path

    @classmethod
    def of(cls, root: Path, job: HostJob) -> "JobFolder":
        return cls(root / f"{job.attempt}.{job.machine}")

    @property
    def claim(self) -> Path:
        return self.path / "claim"

    @property
    def output(self) -> Path:
        return self.path / "output.txt"

    def start(self, job: HostJob, words: Sequence[str], variables: Mapping[str, str]) -> None:
        """Have the node started, once: where it was started already this does nothing."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            if self.claim.exists():
                return
            write_private(self.path / "plan.json", encode(job))
            with self.output.open("ab") as output:
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "workers.host_jobs.keeper", str(self.path), *words],
                    env={**os.environ, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    cwd=self.path,
                )
            deadline = time.monotonic() + START_LIMIT_S
            while self.keeper() is None and time.monotonic() < deadline:
                time.sleep(0.02)

    def end(self) -> None:
        """Stop the node; forget one that is over."""
        job = self.look()
        if job is None or job.state != HostJobState.RUNNING:
            if job is not None:  # the node worker removes its folder itself unless it was killed
                remove_tree(self.path.parents[2] / "machines" / "nodes" / f"{job.attempt}-{job.machine}")
            remove_tree(self.path)
        elif (keeper := self.keeper()) is not None:
            send(keeper.pid, signal.SIGTERM)

    def look(self) -> HostJob | None:
        """Return the job as it is now; None for a folder that holds no plan."""
        job = read(self.path / "plan.json", HostJob)
        if job is None or not self.claim.exists():
            return job
        end, keeper = read(self.path / "end.json", EndMark), self.keeper()
        job.started_at = keeper.at if keeper else self._claimed_at()
        if end is not None:
            job.exit_code, job.ended_at = end.exit_code, end.at
        elif self._is_kept(keeper):
            job.state = HostJobState.RUNNING
            return job
        job.state = HostJobState.OVER
        job.last_words = self._last_words() if job.exit_code else ""
        return job

    def keeper(self) -> KeeperMark | None:
        return read(self.path / "keeper.json", KeeperMark)

    def _is_kept(self, keeper: KeeperMark | None) -> bool:
        if keeper is None:
            return time.time() - self._claimed_at() < CLAIM_LIMIT_S
        return keeper.boot == boot_id() and is_alive(Process(keeper.pid, keeper.start))

    def _claimed_at(self) -> float:
        try:
            return self.claim.stat().st_mtime
        except OSError:
            return 0.0

    def _last_words(self) -> str:
        with suppress(OSError), self.output.open("rb") as file:
            file.seek(max(0, self.output.stat().st_size - 4 * MAX_QUOTED))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            return lines[-1][:MAX_QUOTED] if lines else ""
        return ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.path / "lock").open("w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            yield


def boot_id() -> str:
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""


def read(path: Path, kind: type[T]) -> T | None:
    try:
        return decode(path.read_bytes(), kind)
    except (OSError, BadDocument):
        return None

"""The folder of one attempt on a node: its files, its lock, and whether its supervisor lives."""

import contextlib
import fcntl
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import trainyard
from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport
from trainyard.contract.statuses import OVER, Phase
from trainyard.spooling.held_folder import HeldFolder, remove_tree
from workers.attempt.documents import RecordedProcesses, SentOutput, read_document, write_document
from workers.machine.processes import Process

# Linux's struct flock: type, whence, start, length, pid.
FLOCK = struct.Struct("hhqqi4x")
TRACES = "traces"  # the folder of them, in the output
TRACE = re.compile(r"step-\d+\.rank-\d+\.json\.gz")  # as workers.training.measuring.tracing names them


class AttemptTaken(RuntimeError):
    """Another supervisor lives in this folder."""


class Below:
    """The path of a file or folder in that of an attempt."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "AttemptFolder", _: type) -> Path:
        return folder.path / self._name


@dataclass
class AttemptFolder:
    path: Path
    # An order does not change, nor does a final report: each is read from the disk once.
    _order: Order | None = None
    _final: AttemptReport | None = None
    _is_done: bool = False
    _is_left: bool = False  # it has ended, and its supervisor is gone
    _sent: SentOutput | None = None
    pending: dict[str, int] = field(default_factory=dict)  # bytes by name of the output files that are not sent yet
    sending: dict[str, int] = field(default_factory=dict)  # the file that is being sent, and how many bytes have gone
    output_problem: str = ""  # why the output waits, as far as this process knows

    spool = Below("spool")
    logs = Below("logs")
    output = Below("output")
    code = Below("code")
    home = Below("home")  # $HOME of its ranks
    # Of its ranks, and their /tmp where they have one of their own. They know it by the short name that
    # ``workers.attempt.temporary`` gives it.
    temporary = Below("tmp")
    sdk = Below("sdk")  # has the package trainyard and nothing else of ours
    uploaded_mark = Below("uploaded")
    decided_mark = Below("decided")  # no file waits for a person's decision any more
    taken_mark = Below("taken")  # a later attempt has taken over what was in the working folder
    shipped_mark = Below("shipped")
    # Made by a supervisor whose process reaper was killed, before it ends with its ranks. The file has the name that
    # supervisors of earlier versions write, since these outlive an update of the node worker.
    reaper_mark = Below("fence-killed")
    error_mark = Below("supervisor-error")  # with the type and words of the error by which a supervisor ended
    reserve = Below("reserve")  # room for the final report on a disk that is full by then
    trace_path = Below("trace.json")  # steps that are to be traced: written by the supervisor, read by its ranks
    stopped_path = Below("logs/stopped.json")  # where rank 0 of a recipe stopped that was asked to, and if it is saved
    _lock = Below("lock")

    @property
    def attempt(self) -> str:
        return self.path.name

    @property
    def writable_folders(self) -> list[Path]:
        """The folders that its ranks may write. The other files are the supervisor's and the node's."""
        return [self.spool, self.logs, self.output, self.code, self.home, self.temporary]

    def create(self, order: Order) -> None:
        """Make the folder. The order is written last: a folder without one never was an attempt."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o711)  # its ranks may be another user's, and must pass through
        for folder in self.writable_folders:
            folder.mkdir(mode=0o700, exist_ok=True)
        self.sdk.mkdir(exist_ok=True)
        self.sdk.chmod(0o755)  # whatever the node's umask: another user's processes import from it
        with contextlib.suppress(FileExistsError):
            (self.sdk / "trainyard").symlink_to(Path(trainyard.__file__).parent)
        write_document(self.path / "order.json", order)
        self._order = order

    def order(self) -> Order | None:
        if self._order is None:
            self._order = read_document(self.path / "order.json", Order)
        return self._order

    def report(self) -> AttemptReport | None:
        if self._final is not None:
            return self._final
        report = read_document(self.path / "report.json", AttemptReport)
        if report is not None and report.phase in OVER:
            self._final = report
        return report

    def phase(self) -> Phase:
        report = self.report()
        return Phase.PREPARING if report is None else report.phase

    def write_report(self, report: AttemptReport) -> None:
        write_document(self.path / "report.json", report)

    def is_ended(self) -> bool:
        return self.phase() in OVER

    def is_uploaded(self) -> bool:
        """Return whether its output has been sent, and no file waits for a person's decision."""
        return self.uploaded_mark.exists() and self.decided_mark.exists()

    def output_sent(self) -> SentOutput:
        if self._sent is None:
            self._sent = read_document(self.path / "sent.json", SentOutput) or SentOutput()
        return self._sent

    def record_output(self, sent: SentOutput) -> None:
        """Remember what became of the output files, for node workers after this one."""
        write_document(self.path / "sent.json", sent)
        self._sent = sent

    def is_done(self) -> bool:
        """Return whether it is over and the server has all of it. Once true it stays true, and is cheap to check."""
        self._is_done = self._is_done or (self.is_ended() and self.shipped_mark.exists() and self.is_uploaded())
        return self._is_done

    def empty(self) -> None:
        """Remove what its ranks wrote, once it is done: order, report and marks stay."""
        for one in self.writable_folders:
            remove_tree(one)

    def error_path(self, rank: int) -> Path:
        return self.logs / f"rank-{rank}.error.json"

    def exit_path(self, rank: int) -> Path:
        """Written by a rank whose script is over, with its exit code; what follows may hang."""
        return self.logs / f"rank-{rank}.exit.json"

    def joined_path(self, rank: int) -> Path:
        """Made by a rank of a run that outlives it, once all ranks have found each other."""
        return self.logs / f"rank-{rank}.joined"

    def joining_path(self, rank: int) -> Path:
        """Made by a script's warm rank as it begins to form a process group. Later it makes ``joined_path`` too."""
        return self.logs / f"rank-{rank}.joining"

    def marks_path(self, rank: int) -> Path:
        """Path of the file to which a cold rank copies how far its collectives are."""
        return self.logs / f"rank-{rank}.marks"

    def imported_path(self, module: str) -> Path:
        """Made by a rank that ends and had imported the module, which the warm process imports then too."""
        return self.logs / f"imported.{module}"

    def pid_path(self, rank: int) -> Path:
        """File in which Podman writes the pid of a rank in a container. The rank cannot write there."""
        return self.path / f"rank-{rank}.pid"

    def stream_path(self, rank: int, stream: str) -> Path:
        return self.logs / f"rank-{rank}.{stream}"

    def append(self, rank: int, stream: str) -> IO[bytes]:
        """Open a stream of a rank to write behind its end. Raises OSError."""
        with HeldFolder.open(self.logs) as logs:
            return os.fdopen(logs.append(self.stream_path(rank, stream).name), "ab", buffering=0)

    def unsent_traces(self) -> list[str]:
        """Return the names of the finished traces that the server does not have yet. Links, and what else a script may
        keep in a folder of that name, are none."""
        try:
            with HeldFolder.open(self.output) as output, output.folder(TRACES) as traces:
                found = [name for name, facts in traces.walk() if TRACE.fullmatch(name) and stat.S_ISREG(facts.st_mode)]
        except OSError:  # there are none, as in almost all attempts
            return []
        return [name for name in sorted(found) if not self.sent_mark(name).exists()]

    def sent_mark(self, name: str) -> Path:
        return self.path / "sent" / name

    def record_processes(self, processes: list[Process]) -> None:
        """Record the processes that must be gone before this attempt is over."""
        write_document(self.path / "processes.json", RecordedProcesses(processes))

    def recorded_processes(self) -> list[Process]:
        return (read_document(self.path / "processes.json", RecordedProcesses) or RecordedProcesses()).processes

    def take_lock(self) -> IO[bytes]:
        """Lock the folder for this process; keep the answer. Raises AttemptTaken.

        A POSIX record lock: forked children do not have it, so a dead supervisor never looks alive. It is lost as
        soon as this process closes *any* descriptor of the file, so nobody else here may open it.
        """
        file = self._lock.open("ab")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise AttemptTaken(f"attempt {self.attempt} already has a supervisor") from error
        return file

    def was_started(self) -> bool:
        return self._lock.exists()

    def lock_holder(self) -> int | None:
        """Return the pid of the supervisor that lives here, None when there is none. Never takes the lock."""
        if self._is_left:
            return None
        question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            with self._lock.open("r+b", buffering=0) as file:
                kind, _, _, _, pid = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))
        except FileNotFoundError:
            return None
        if kind != fcntl.F_UNLCK:
            return int(pid)
        self._is_left = self.is_ended()
        return None


def attempts_in(home: Path) -> Iterator[AttemptFolder]:
    """Yield the folders of a node's home that hold an order."""
    for path in sorted((home / "attempts").glob("*/order.json")):
        yield AttemptFolder(path.parent)

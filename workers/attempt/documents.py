"""Documents that a node keeps on its disk: JSON files that are replaced as a whole and read as a type.

Those here lie in an attempt's folder beside those of the contract. The folder also holds an ``Order`` (order.json), an
``AttemptReport`` (report.json), a ``TraceRequest`` (trace.json), and, written by ranks, a ``RankError``
(logs/rank-N.error.json) and a ``SavedStep`` (logs/stopped.json).
"""

import errno
from pathlib import Path
from typing import TypeVar

import structlog

from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.contract.orders import Locked
from trainyard.spooling.plain_files import open_plain, write_private
from workers.machine.processes import Process
from workers.sandbox.node import Isolation

log = structlog.get_logger(__name__)

T = TypeVar("T")

_refused: dict[Path, str] = {}  # damaged files that the log names already: many are read several times a second
# Of a file: size and modification time in ns. They stay as long as the content does.
Stamp = list[int]
FileStamps = dict[str, Stamp]  # by name; code.json holds those of the working folder before the script began


class SentOutput(WireStruct):
    """State of each output file: sent.json."""

    sent: dict[str, list[int | str]] = {}  # stamp by name; of a link also the name of its file
    refused: dict[str, str] = {}  # why, by name


class RecordedProcesses(WireStruct):
    """Processes that must be gone before the attempt is over: processes.json."""

    processes: list[Process] = []


class RankExit(WireStruct):
    """Written by a rank whose script is over: logs/rank-N.exit.json."""

    exit_code: int


def read_document(path: Path, kind: type[T]) -> T | None:
    """Return the document in the file. None where there is no such file, or where its content has another shape: the
    log then names the field, without its value."""
    try:
        with open_plain(path) as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL, errno.EAGAIN):
            raise
        return None  # a link, a pipe, or a file with a lease: a script made it
    try:
        return decode(data, kind, is_secret=True)  # an order holds a run's environment
    except BadDocument as error:
        if _refused.get(path) != str(error):
            _refused[path] = str(error)
            log.warning("file.refused", path=str(path), error=str(error))
        return None


def write_document(path: Path, document: object, *, mode: int = 0o600) -> None:
    """Replace the file as a whole, so that a reader never meets half of it."""
    write_private(path, encode(document), mode=mode)


class StartRequest(WireStruct):
    """The node worker's wish for a supervisor of the attempt in ``folder``."""

    folder: str
    home: str  # of the node: the key is read there, once the ranks' processes are forked
    isolation: Isolation
    address: str
    cache: str  # the project's
    checkpoints: str  # the folder under which each run has its own
    memory: str = ""  # the node's folder for states in memory; empty where it has none…
    memory_limit_bytes: int = 0
    memory_problem: str = ""  # …and why
    secrets: Locked | None = None  # opened once the ranks' processes are forked: the warm process never knows them


class Ready(WireStruct):
    """The warm process has imported everything."""

    ready: int  # its pid
    threads: int


class Forked(WireStruct):
    """The answer to a request: the reaper's pid, or why there is none."""

    pid: int = 0
    error: str = ""

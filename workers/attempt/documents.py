"""Documents that a node keeps in an attempt's folder beside those of the contract.

The folder also holds an ``Order`` (order.json), an ``AttemptReport`` (report.json), a ``TraceRequest`` (trace.json),
and, written by ranks, a ``RankError`` (logs/rank-N.error.json) and a ``SavedStep`` (logs/stopped.json).
"""

from __future__ import annotations

from trainyard.contract.base import WireStruct
from workers.machine.processes import Process

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

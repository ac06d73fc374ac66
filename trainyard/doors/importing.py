"""Imports: runs that another tool recorded, sent to a server once, however often and wherever it is tried again.

An imported run is a run that was logged elsewhere (``PUT /runs/local``). What its files held when they were imported
is one producer for each file, named by the file and by how far it was read then: so the server alone knows what it
has, an import that was interrupted goes on in its middle, and a file that has grown since adds what is new.
"""

import contextlib
import hashlib
import itertools
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from trainyard.contract.answers import runs as run_answers
from trainyard.contract.records import AnyRecord, Begin, End, Media, Points
from trainyard.doors.gathering import Gathering
from trainyard.rest import answers
from trainyard.rest.client import Client
from trainyard.sdk.sync import BATCH_BYTES, PATIENCE_S, Stuck, clean_name, patiently, seconds
from trainyard.spooling.frames import pack


class SourceFile(Protocol):
    """One file of a run of another tool, which may grow."""

    key: str  # names it for ever
    end: int  # how far it can be read now
    first_at: float = math.inf  # Unix seconds, once it was read
    last_at: float = -math.inf  # not finite: nothing says that it ended
    error: str = ""  # with which its process ended; empty where it did not fail, or nothing says so

    def records(self, gathering: Gathering, start: int, end: int) -> Iterator[AnyRecord]:
        """Yield what lies between two places; the same places give the same records. Raises OSError."""


@dataclass(frozen=True)
class ForeignRun:
    id: str  # what makes it the same run when it comes again
    name: str
    origin: str  # such as a folder, for people
    files: Iterable[SourceFile]  # each is asked for once, and then forgotten
    is_interrupted: bool = False  # where it ended, somebody stopped it


@dataclass
class Imported:
    """What came of one run. ``refused``: how often something had no counterpart, by reason."""

    run: run_answers.Run
    refused: Counter[str]
    num_points: int = 0  # that the server lacked
    num_media: int = 0

    def count(self, record: AnyRecord) -> None:
        if isinstance(record, Points):
            self.num_points += sum(len(group.steps) // 8 * len(group.names) for group in record.groups)
        self.num_media += isinstance(record, Media)


def local_id(*parts: str) -> str:
    """Return the id under which the server finds the run again."""
    return hashlib.sha256("\n".join(("trainyard import", *parts)).encode()).hexdigest()[:32]


def send(client: Client, foreign: ForeignRun, project: str | None = None) -> Imported:
    """Send what the server lacks of the run. Raises ApiError, Unreachable, OSError, and Stuck."""
    own = local_id(foreign.id, project or "")
    body: answers.LocalRunBody = {
        "name": clean_name(foreign.name) or "imported run",
        "project": project,
        "script": foreign.origin[:500],
        "host": "",
        "processes": {},
    }
    answer = patiently(lambda: client.send_local_run(own, body), PATIENCE_S)
    known = answer["watermarks"]
    gathering = Gathering()
    found = Imported(answer["run"], gathering.refused)
    for file in foreign.files:
        parts = list(_parts(file, known, gathering))
        for part in parts:
            _send_part(client, file, part, gathering, found, is_followed=part is not parts[-1])
            body["processes"][part.producer] = _process(file, is_interrupted=foreign.is_interrupted)
    if body["processes"]:
        found.run = patiently(lambda: client.send_local_run(own, body), PATIENCE_S)["run"]
    return found


class Part(NamedTuple):
    """What one producer holds of a file, and the last of its frames that the server has."""

    producer: str
    start: int
    end: int
    watermark: int


def _parts(file: SourceFile, watermarks: dict[str, int], gathering: Gathering) -> Iterator[Part]:
    """Yield what the server may lack: the part that was sent last, which may have been cut off, and what is new."""
    prefix = hashlib.sha256(file.key.encode()).hexdigest()[:16]
    ends = sorted(int(producer[16:], 16) for producer in watermarks if producer.startswith(prefix))
    start = 0
    if ends:
        start = ends[-2] if len(ends) > 1 else 0
        producer = f"{prefix}{ends[-1]:016x}"
        if ends[-1] > file.end:
            gathering.refuse(file.key, "it is shorter than what was imported of it before")
            return
        yield Part(producer, start, ends[-1], watermarks[producer])
        start = ends[-1]
    if start < file.end:
        yield Part(f"{prefix}{file.end:016x}", start, file.end, 0)


def _send_part(
    client: Client, file: SourceFile, part: Part, gathering: Gathering, found: Imported, *, is_followed: bool
) -> None:
    run_id = str(found.run["id"])
    waiting: list[bytes] = []
    size = 0
    sequence = 0
    records = itertools.chain([Begin(role="script")], file.records(gathering, part.start, part.end))
    for sequence, record in enumerate(records, 1):
        if sequence > part.watermark:
            found.count(record)
            waiting.append(pack(part.producer, sequence, record))
            size += len(waiting[-1])
        if size > BATCH_BYTES:
            _send_frames(client, run_id, part.producer, waiting, sequence)
            waiting, size = [], 0
    if is_followed or math.isfinite(file.last_at):  # else the run is lost until more of the file comes
        sequence += 1
        if sequence > part.watermark:
            waiting.append(pack(part.producer, sequence, End(at=seconds(file.last_at) or 0.0, reason="finish")))
    if waiting:
        _send_frames(client, run_id, part.producer, waiting, sequence)


def _send_frames(client: Client, run_id: str, producer: str, frames: list[bytes], last: int) -> None:
    data = b"".join(frames)
    answer = patiently(lambda: client.send_frames(run_id, data), PATIENCE_S)
    if (stored := answer["watermarks"].get(producer, 0)) < last:
        raise Stuck(f"the server stored {producer} up to {stored} and not to {last}")


def _process(file: SourceFile, *, is_interrupted: bool) -> answers.LocalProcess:
    return {
        "rank": -1,
        "host": "",
        "began_at": seconds(file.first_at),
        "ended_at": seconds(file.last_at),
        "error": file.error,
        "is_interrupted": is_interrupted,
        "is_replaced": False,
    }


def query_of(path: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return what a database of another tool answers, which is opened for reading alone. Raises OSError."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            return connection.execute(sql, values).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"{path} cannot be read as a database of that tool: {error}") from error

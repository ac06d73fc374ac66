"""Sending local runs to a server: once, however often it is tried and wherever it was interrupted.

The server makes one run for a local id, stores each frame of a process once, and says how far it has come. So there
is nothing to remember here but which run came of a folder, in order not to send a deleted one again.
"""

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath
from typing import NamedTuple, TypeVar

from trainyard.contract.answers import runs as run_answers
from trainyard.contract.records import YEAR_3000, BadRecord, Begin, End
from trainyard.formats.names import without_hidden
from trainyard.rest import answers
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError, Unreachable
from trainyard.sdk import local_run as local
from trainyard.sdk.saving import FOLDER
from trainyard.spooling.frames import Frame
from trainyard.spooling.reader import READ_BYTES, SpoolReader
from trainyard.spooling.writer import spool_files, spool_path

BATCH_BYTES = 2 * 1024 * 1024  # one frame more still fits into a request, which holds 4 MiB
PATIENCE_S = (1.0, 2.0, 4.0, 8.0)  # between tries while the server is away, as when it is restarted
NOTE = "sent.json"  # beside the spools: the run that came of them, by server
MAX_NAME = 120

T = TypeVar("T")
FileSent = tuple[str, int, str]


class Gone(RuntimeError):
    """The run that was sent before is not on the server any more."""


class Stuck(RuntimeError):
    """The server takes frames and does not get on."""


@dataclass(frozen=True)
class LocalSpool:
    folder: Path
    producer: str
    begin: Begin

    @property
    def numbers(self) -> list[int]:
        return spool_files(self.folder).get(self.producer, [])

    @property
    def num_bytes(self) -> int:
        paths = [spool_path(self.folder, self.producer, number) for number in self.numbers]
        return sum(path.stat().st_size for path in paths if path.exists())

    def last(self) -> Frame | None:
        """Return the last whole frame that there is now, whatever is damaged before it."""
        numbers = self.numbers
        reader = SpoolReader(self.folder, self.producer, first_file=numbers[-1] if numbers else 0)
        last = None
        while found := reader.read(READ_BYTES, numbers, is_over=True):
            last = next((frame for frame in reversed(found) if frame.kind != "damaged"), last)
        return last

    @property
    def over_at(self) -> float:
        """Return when the process wrote last (Unix seconds); infinity where it may still be there, or ended well."""
        if (end := self.end()) is not None:
            return end.at if end.reason.startswith(local.ERROR) or end.reason == local.INTERRUPTED else math.inf
        if self.begin.host == local.host_name() and Path("/proc", str(self.begin.pid)).exists():
            return math.inf
        paths = [spool_path(self.folder, self.producer, number) for number in self.numbers]
        return max((path.stat().st_mtime for path in paths if path.exists()), default=math.inf)

    def end(self) -> End | None:
        """Return the end record; None where there is none yet."""
        last = self.last()
        record = last.record() if last is not None and last.kind == "end" else None
        return record if isinstance(record, End) else None


@dataclass
class LocalRun:
    """Spools of one local id, wherever they lie."""

    id: str
    spools: dict[str, LocalSpool] = field(default_factory=dict)  # by producer

    @property
    def first(self) -> LocalSpool:
        return min(self.spools.values(), key=lambda spool: seconds(spool.begin.at) or 0.0)

    @property
    def name(self) -> str:
        named = sorted(self.spools.values(), key=lambda spool: seconds(spool.begin.at) or 0.0)
        texts = [spool.begin.name for spool in named]
        return clean_name(next(filter(None, texts), "")) or clean_name(PurePath(self.script).name) or "local run"

    @property
    def script(self) -> str:
        return self.first.begin.script

    @property
    def num_bytes(self) -> int:
        return sum(spool.num_bytes for spool in self.spools.values())

    @property
    def files(self) -> dict[str, Path]:
        """Files that the script saved, by their paths in the run."""
        found: dict[str, Path] = {}
        for root in sorted({spool.folder / FOLDER for spool in self.spools.values()}):
            for file in sorted(root.rglob("*")):
                if file.is_file() and not file.name.startswith(".saving-"):
                    found[file.relative_to(root).as_posix()] = file
        return found

    @property
    def project(self) -> str | None:
        """Return the project that the script asked for; None where it did not."""
        return next(filter(None, (spool.begin.project for spool in self.spools.values())), None)

    def document(self, project: str | None, *, is_live: bool = False) -> answers.LocalRunBody:
        """Return the document about the run and its processes for the server."""
        body: answers.LocalRunBody = {
            "name": self.name,
            "project": project or self.project,
            "script": self.script[:500],
            "host": self.first.begin.host[:255],
            "processes": {
                producer: _process(spool, self._is_replaced(spool)) for producer, spool in self.spools.items()
            },
        }
        if is_live:  # an older server refuses the field
            body["is_live"] = True
        return body

    def _is_replaced(self, spool: LocalSpool) -> bool:
        """Return whether another process took this one's place: its launcher restarted it, or it was killed or failed
        and a person started it again under the same id."""
        mine, others = spool.begin, [one.begin for one in self.spools.values() if one.producer != spool.producer]
        later = [one for one in others if one.rank == mine.rank and one.at >= mine.at]
        if mine.rank >= 0 and any(one.restart > mine.restart for one in later):
            return True
        return bool(later) and max(one.at for one in later) >= spool.over_at  # which reads the spool


class Sent(NamedTuple):
    local_id: str
    run: run_answers.Run
    num_frames: int
    num_bytes: int
    refused: list[str]  # files, and why the server did not take them


def find(folder: Path) -> list[LocalRun]:
    """Return the local runs below ``folder``, the first that began first. Raises OSError where it cannot be read."""
    found: dict[str, LocalRun] = {}
    for above, folders, _ in os.walk(folder, onerror=_raise):
        folders.sort()
        for producer, numbers in spool_files(Path(above)).items():
            spool = _spool(Path(above), producer, numbers)
            if spool is None:
                continue
            run = found.setdefault(spool.begin.local, LocalRun(spool.begin.local))
            twin = run.spools.get(producer)
            if twin is None or twin.num_bytes < spool.num_bytes:  # of copies the one that has more
                run.spools[producer] = spool
    return sorted(found.values(), key=lambda run: seconds(run.first.begin.at) or 0.0)


def send(
    client: Client,
    run: LocalRun,
    *,
    project: str | None = None,
    again: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Sent:
    """Send what the server lacks of the run, and call ``advance`` with the bytes of each request.

    Raises ApiError, Unreachable, OSError, Gone for a run that was deleted there (unless ``again``), and Stuck.
    """
    answer = announce(client, run, project=project, again=again)
    run_id = str(answer["run"]["id"])
    num_frames = num_bytes = 0
    for spool in run.spools.values():
        reader = SpoolReader(spool.folder, spool.producer, int(answer["watermarks"].get(spool.producer, 0)))
        for frames in batches(client, run_id, spool, reader):
            num_frames += len(frames)
            num_bytes += sum(map(len, frames))
            advance(sum(map(len, frames)))
    refused = []
    for _, size, why in send_files(client, run, run_id, PATIENCE_S):
        num_bytes += size
        advance(size)
        refused += [why] if why else []
    # Told anew, since a process may have ended meanwhile; and only now everything that it ends with has arrived.
    answer = patiently(lambda: client.send_local_run(run.id, run.document(project)), PATIENCE_S)
    return Sent(run.id, answer["run"], num_frames, num_bytes, refused)


def announce(
    client: Client,
    run: LocalRun,
    *,
    project: str | None = None,
    again: bool = False,
    waits: Sequence[float] = PATIENCE_S,
    is_live: bool = False,
) -> answers.LocalRun:
    """Tell the server of the run and its processes; return ``run`` and ``watermarks``. Raises as ``send`` does.

    ``is_live``: one of them is at work now; the server takes it as the run's heartbeat.
    """
    if not again and (noted := _noted(run, client.url)) and not _exists(client, noted, waits):
        raise Gone(f"{run.name} was sent before as {noted}, which is not on the server any more, or not for you")
    document = run.document(project, is_live=is_live)
    answer = patiently(lambda: client.send_local_run(run.id, document), waits)
    _note(run, client.url, str(answer["run"]["id"]))
    return answer


def batches(
    client: Client, run_id: str, spool: LocalSpool, reader: SpoolReader, waits: Sequence[float] = PATIENCE_S
) -> Iterator[list[bytes]]:
    """Send one process's frames from where the reader is, and yield each batch when it is stored.

    Ends where the spool ended when this began (before a torn tail): whoever still writes is not chased for ever.
    """
    last = spool.last()
    while last is not None and reader.sequence < last.sequence:
        # A frame that looks torn is not waited for: a whole frame follows it, so its writer has gone on.
        found = reader.read(BATCH_BYTES, spool.numbers) or reader.read(1, spool.numbers, is_over=True)
        frames = [frame.raw for frame in found]
        if not frames:
            return
        data = b"".join(frames)
        answer = patiently(lambda data=data: client.send_frames(run_id, data), waits)  # type: ignore[misc]
        if int(answer["watermarks"].get(spool.producer, 0)) < reader.sequence:
            raise Stuck(f"the server stored {spool.producer} up to {answer['watermarks']} and not to {reader.sequence}")
        yield frames


def send_files(client: Client, run: LocalRun, run_id: str, waits: Sequence[float] = ()) -> Iterator[FileSent]:
    """Send the files that the script saved and the server has not, or has an older one of. Yield the path of each, the
    bytes that were sent, and why it was not taken. Raises as ``send`` does."""
    found = run.files
    known = {one["path"]: one for one in client.file_list(run_id)["items"]} if found else {}
    for path, file in found.items():
        stat, has, why = file.stat(), known.get(path), ""
        sent_at = datetime.fromisoformat(has["modified_at"]).timestamp() if has else 0.0
        if has and has["size_bytes"] == stat.st_size and sent_at > stat.st_ctime:
            yield path, 0, ""
            continue
        try:
            patiently(lambda path=path, file=file: client.send_file(run_id, path, file), waits)  # type: ignore[misc]
        except ApiError as error:
            if error.status not in (405, 409, 411, 413, 422):  # 405: an older server
                raise
            why = f"the file {path} was not taken: {error.detail}"
        yield path, stat.st_size, why


def patiently(ask: Callable[[], T], waits: Sequence[float]) -> T:
    """Ask again while the server is away: the same request again changes nothing."""
    for wait_s in waits:
        try:
            return ask()
        except (Unreachable, ApiError) as error:
            if isinstance(error, ApiError) and error.status not in (502, 503, 504):
                raise
        time.sleep(wait_s)
    return ask()


def _spool(folder: Path, producer: str, numbers: list[int]) -> LocalSpool | None:
    """Return the producer's spool; None where it has no begin record (yet), or is none of a local run."""
    first = SpoolReader(folder, producer).read(1, numbers)
    if not first or first[0].kind != "begin":
        return None
    try:
        begin = first[0].record()
    except BadRecord:  # its checksum is right, so somebody else's program wrote it
        return None
    return LocalSpool(folder, producer, begin) if isinstance(begin, Begin) and begin.local else None


def _process(spool: LocalSpool, is_replaced: bool) -> answers.LocalProcess:
    end = spool.end()
    reason = end.reason if end else ""
    return {
        "rank": spool.begin.rank,
        "host": spool.begin.host[:255],
        "began_at": seconds(spool.begin.at),
        "ended_at": seconds(end.at) if end else None,
        "error": reason.removeprefix(local.ERROR)[:500] if reason.startswith(local.ERROR) else "",
        "is_interrupted": reason == local.INTERRUPTED,
        "is_replaced": is_replaced,
    }


def _noted(run: LocalRun, url: str) -> str:
    """Return the run's id on that server, as it was noted when it was sent; empty where it was not."""
    with contextlib.suppress(OSError, ValueError):
        noted = json.loads((run.first.folder / NOTE).read_text())
        return str(noted.get(url, {}).get(run.id, ""))
    return ""


def _note(run: LocalRun, url: str, run_id: str) -> None:
    """Write it down, whole or not at all. A folder that cannot be written only loses the warning of a deleted run."""
    path = run.first.folder / NOTE
    with contextlib.suppress(OSError):
        noted: dict[str, dict[str, str]] = {}
        with contextlib.suppress(OSError, ValueError):
            noted = json.loads(path.read_text())
        if noted.get(url, {}).get(run.id) == run_id:
            return
        noted.setdefault(url, {})[run.id] = run_id
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(noted))
        draft.replace(path)


def _exists(client: Client, run_id: str, waits: Sequence[float]) -> bool:
    try:
        patiently(lambda: client.run(run_id), waits)
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def clean_name(text: str) -> str:
    return "".join(char for char in without_hidden(text) if char.isprintable() and char not in "<>").strip()[:MAX_NAME]


def seconds(at: float) -> float | None:
    """Return a time as the server takes it; None for one that it does not take."""
    return at if 0 <= at <= YEAR_3000 else None


def _raise(error: OSError) -> None:
    raise error

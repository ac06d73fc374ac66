"""Folders of event files as runs to import: each folder that has some is a run, as TensorBoard shows it."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from trainyard.contract.records import AnyRecord
from trainyard.doors.gathering import Gathering
from trainyard.doors.importing import ForeignRun, SourceFile
from trainyard.doors.tensorboard.event_files import event_folders, pieces
from trainyard.doors.tensorboard.events import Translator

HEAD_BYTES = 64  # of the first record, which has the time to the microsecond
TAKE_EVERY = 4  # pieces: frames are full, and memory holds little


def foreign_runs(root: Path) -> list[ForeignRun]:
    """Return a run for each folder with events at or below ``root``, named by its path there. Raises OSError."""
    found = []
    for folder, paths in event_folders(root).items():
        name = folder.relative_to(root).as_posix()
        with paths[0].open("rb") as file:
            head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()
        files: list[SourceFile] = [EventFile(path) for path in paths]
        # Not by the folder's path: it is the same run where the folder was moved or copied.
        own = f"tensorboard {paths[0].name} {head}"
        found.append(ForeignRun(own, root.resolve().name if name == "." else name, str(folder), files))
    return found


class EventFile(SourceFile):
    """A torn end is left for the next import."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.key = path.name
        self.end = path.stat().st_size

    def records(self, gathering: Gathering, start: int, end: int) -> Iterator[AnyRecord]:
        """Yield the records between two places. What lies before is read for what it says about tags."""
        translator = Translator(Gathering())
        place = 0
        with self._path.open("rb") as file:
            for piece in pieces(file, start):
                translator.take(piece.bodies)
                translator.gathering = Gathering()  # the server has these
                place = piece.end
            translator.gathering = gathering
            for number, piece in enumerate(pieces(file, end, place, translator.take_packed), 1):
                translator.take(piece.bodies)
                place = piece.end
                for damage in piece.damages:
                    gathering.refuse(str(self._path), f"the record at byte {damage.offset:,}: {damage.why}")
                if number % TAKE_EVERY == 0:
                    yield from gathering.take()
            yield from gathering.take()
        self.first_at, self.last_at = translator.first_at, translator.last_at
        if place < end == self.end:
            gathering.refuse(str(self._path), f"behind byte {place:,} it is torn, or still being written")

"""Room for output files: what a run may keep, what the disk has, and what files that are on their way will take.

A file that comes in parts is promised its room when it begins. All promises lie in one folder, so that every process of
the server counts all of them; a lock lets one check at a time.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from django.conf import settings

from runs.records.files import outputs
from runs.records.files.paths import folder_locked, run_folder
from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.contract.limits import UNSENT_KEPT_S
from trainyard.spooling.plain_files import write_private

RESERVE_BYTES = 1024**3  # of the server's disk, which its databases need
COUNTED_S = 10.0
PROMISED_S = 3600.0  # so long without a part, and the room is somebody else's


class NoRoom(OSError):
    """The server's disk is full, or nearly so: it may have room later."""


class Announced(WireStruct):
    """A file that comes in parts, as it was announced."""

    path: str
    size: int
    is_encrypted: bool = False  # it is, as it is written


def locked() -> AbstractContextManager[None]:
    """Let nobody else check or promise meanwhile."""
    return folder_locked(_folder())


def check_room(run_id: str, num_bytes: int, *, num_here: int = 0, but: str = "") -> None:
    """Raise outputs.TooLarge where the run's output would be larger than the server keeps, NoRoom where the disk has no
    room for what of ``num_bytes`` is not here yet. ``but`` names the file's own announcement, if it has one: then the
    run's files are counted now, and else as they were a few seconds ago."""
    announced = {name: found for name, found in _announced() if name != but}
    if limit := settings.OUTPUT_LIMIT_BYTES:
        coming = sum(file.size for name, (file, _) in announced.items() if name.partition(".")[0] == run_id)
        if _size_of(run_id, 0.0 if but else COUNTED_S) + coming + num_bytes > limit:
            raise outputs.TooLarge(
                f"The output of a run has at most {limit:,} bytes on this server (OUTPUT_LIMIT_BYTES); this file would "
                "be too much."
            )
    free = free_bytes() - sum(file.size - here for file, here in announced.values())
    needed = num_bytes - num_here
    if free - needed < RESERVE_BYTES and needed > 0:
        raise NoRoom(f"The server's disk has {max(0, free):,} bytes left, which is not enough for this file.")


def free_bytes() -> int:
    return shutil.disk_usage(settings.HOME).free


def announce(name: str, file: Announced) -> None:
    write_private(announcement_path(name), encode(file))


def announcement_path(name: str) -> Path:
    return _folder() / f"{name}.json"


def read_announcement(name: str) -> Announced | None:
    try:
        return decode(announcement_path(name).read_bytes(), Announced)
    except (FileNotFoundError, BadDocument):
        return None


def forget_size(run_id: str) -> None:
    _sizes.pop(run_id, None)


def part_path(name: str) -> Path:
    """Return where what has come of an announced file lies. ``name`` is run, node and key, with points between them."""
    run_id, _, rest = name.partition(".")
    return run_folder(run_id) / "uploads" / rest


def _announced() -> Iterator[tuple[str, tuple[Announced, int]]]:
    """Yield the files that are on their way, and how much of each is here. Those of runs that are gone, and those that
    no node can go on with, are removed."""
    now = time.time()
    for path in _folder().glob("*.json"):
        name = path.stem
        part, announced = part_path(name), read_announcement(name)
        try:
            age_s = now - max(path.stat().st_mtime, part.stat().st_mtime if part.exists() else 0.0)
        except FileNotFoundError:  # whole meanwhile
            continue
        if not part.parent.is_dir() or age_s > UNSENT_KEPT_S:
            part.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        elif announced is not None and age_s <= PROMISED_S:
            yield name, (announced, min(announced.size, part.stat().st_size if part.exists() else 0))


_sizes: dict[str, tuple[float, int]] = {}


def _size_of(run_id: str, counted_s: float) -> int:
    """Return how much the run's output takes, as it was at most ``counted_s`` ago."""
    at, size = _sizes.get(run_id, (0.0, 0))
    if time.monotonic() - at > counted_s or not at:
        size = sum(one["size_bytes"] for one in outputs.listing(run_id))
        if len(_sizes) > 1_000:
            _sizes.clear()
        _sizes[run_id] = time.monotonic(), size
    return size


def _folder() -> Path:
    return Path(settings.HOME) / "uploads"

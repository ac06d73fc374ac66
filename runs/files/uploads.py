"""Large files from nodes: they come in parts, go on where they stopped, and are there only when they are whole.

What has come of a file lies beside the output folder, under a key that its node makes of name, size and time, so that
another version of a file never goes on where this one stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from runs.files import outputs
from runs.files.paths import run_folder
from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.contract.calls.output_files import UploadProgress
from trainyard.contract.limits import UPLOAD_PART_BYTES as PART_BYTES

KEY = re.compile(r"[0-9a-f]{16,64}")
RESERVE_BYTES = 1024**3  # of the server's disk, which its databases need
COUNTED_S = 10.0


class WrongOffset(ValueError):
    """The part does not begin where the last one ended."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the next part begins at byte {offset}")
        self.offset = offset


class NotBegun(LookupError):
    """Nothing was begun under this key."""

    def __init__(self) -> None:
        super().__init__("Nothing was begun under this key. Begin the file again.")


class NoTarget(LookupError):
    """The file that a link is to is not here."""

    def __init__(self, path: str, same_as: str) -> None:
        super().__init__(f"{same_as!r}, which {path!r} is a link to, is not among the files.")


class NoRoom(OSError):
    """The server's disk is full, or nearly so: it may have room later."""


class Announced(WireStruct):
    """A file that comes in parts, as it was announced."""

    path: str
    size: int


class Sender(NamedTuple):
    """Which of the attempt's nodes sends."""

    run_id: str
    node_rank: int
    num_nodes: int


def begin(sender: Sender, path: str, size: int, key: str) -> UploadProgress:
    """Make room for a file, or find what is here of it. Raises outputs.TooLarge, NoRoom, and ValueError for a path that
    is not plainly inside the folder."""
    path = place_of(sender, path)
    file, meta = _places(sender.run_id, key)
    wanted = Announced(path, size)
    if _read(meta) != wanted:
        file.unlink(missing_ok=True)
    offset = file.stat().st_size if file.exists() else 0
    check_room(sender.run_id, size - offset)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = meta.with_suffix(".new")
    temporary.write_text(encode(wanted))
    temporary.replace(meta)
    if offset >= size:
        file.touch()
        _finish(sender.run_id, path, file, meta)
        return UploadProgress(path, size, is_done=True)
    return UploadProgress(path, offset, is_done=False)


def write_part(run_id: str, key: str, offset: int, read: Callable[[int], bytes], sha256: str) -> UploadProgress:
    """Append one part. Raises WrongOffset, NotBegun, and ValueError for other content than
    ``sha256`` says, or more than was announced."""
    file, meta = _places(run_id, key)
    wanted = _read(meta)
    if wanted is None:
        raise NotBegun
    data = _whole(read)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("the body is not the one that was sealed")
    with file.open("ab") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # a node that lost our answer may send the part again
        here = opened.seek(0, os.SEEK_END)
        if here != offset:
            raise WrongOffset(here)
        if here + len(data) > wanted.size:
            raise ValueError(f"the file was announced with {wanted.size:,} bytes")
        opened.write(data)
        offset += len(data)
    if offset == wanted.size:
        _finish(run_id, wanted.path, file, meta)
    return UploadProgress(wanted.path, offset, is_done=offset == wanted.size)


def link(sender: Sender, path: str, same_as: str) -> str:
    """Let ``path`` be the file that stands at ``same_as``, without another copy of it; return where it stands. Raises
    NoTarget, and ValueError for a path that is not plainly inside."""
    found = outputs.find(sender.run_id, place_of(sender, same_as))
    if found is None:
        raise NoTarget(path, same_as)
    path = place_of(sender, path)
    target = outputs.inside(sender.run_id, path)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = target.with_name(f".partial-link-{os.getpid()}-{time.monotonic_ns()}")
    temporary.hardlink_to(found)
    temporary.replace(target)
    temporary.unlink(missing_ok=True)  # rename leaves it where both are the same file already
    return path


def place_of(sender: Sender, path: str) -> str:
    """Return where a node's file stands: under its own name, unless another node has a file of that name. Rank 0's node
    (node rank 0) has its names in any case; the later one of the others goes below ``node-N/``."""
    outputs.inside(sender.run_id, path)
    if sender.num_nodes == 1:
        return path
    owners = run_folder(sender.run_id) / "owners"
    owners.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark = owners / hashlib.sha256(path.encode()).hexdigest()[:40]
    try:
        with mark.open("x") as file:
            file.write(str(sender.node_rank))
        return path
    except FileExistsError:
        owner = int(mark.read_text() or 0)
    if owner == sender.node_rank:
        return path
    if sender.node_rank:
        return place_of(sender, f"node-{sender.node_rank}/{path}")
    _move_away(sender._replace(node_rank=owner), path)
    mark.write_text("0")
    return path


def check_room(run_id: str, num_bytes: int) -> None:
    """Raise outputs.TooLarge where the run's output would be larger than the server keeps, NoRoom where the disk has no
    room for it."""
    limit = settings.OUTPUT_LIMIT_BYTES
    if limit and _size_of(run_id) + num_bytes > limit:
        raise outputs.TooLarge(
            f"The output of a run has at most {limit:,} bytes on this server (OUTPUT_LIMIT_BYTES); this file would be "
            "too much."
        )
    free = shutil.disk_usage(settings.HOME).free
    if free - num_bytes < RESERVE_BYTES and num_bytes > 0:
        raise NoRoom(f"The server's disk has {free:,} bytes left, which is not enough for this file.")


_sizes: dict[str, tuple[float, int]] = {}


def _size_of(run_id: str) -> int:
    """Return how much the run's output takes, looked at now and then."""
    at, size = _sizes.get(run_id, (0.0, 0))
    if time.monotonic() - at > COUNTED_S or not at:
        size = sum(one["size_bytes"] for one in outputs.listing(run_id))
        if len(_sizes) > 1_000:
            _sizes.clear()
        _sizes[run_id] = time.monotonic(), size
    return size


def _move_away(sender: Sender, path: str) -> None:
    found = outputs.find(sender.run_id, path)
    target = outputs.inside(sender.run_id, place_of(sender, f"node-{sender.node_rank}/{path}"))
    if found is not None:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        found.replace(target)


def _finish(run_id: str, path: str, file: Path, meta: Path) -> None:
    outputs.put(run_id, path, file)
    meta.unlink(missing_ok=True)
    _sizes.pop(run_id, None)


def _places(run_id: str, key: str) -> tuple[Path, Path]:
    if not KEY.fullmatch(key):
        raise ValueError("the key is 16 to 64 digits 0-9 and a-f")
    folder = run_folder(run_id) / "uploads"
    return folder / key, folder / f"{key}.json"


def _read(meta: Path) -> Announced | None:
    try:
        return decode(meta.read_bytes(), Announced)
    except (FileNotFoundError, BadDocument):
        return None


def _whole(read: Callable[[int], bytes]) -> bytes:
    parts, size = [], 0
    while part := read(PART_BYTES):
        size += len(part)
        if size > PART_BYTES:
            raise outputs.TooLarge(f"A part has at most {PART_BYTES:,} bytes.")
        parts.append(part)
    return b"".join(parts)

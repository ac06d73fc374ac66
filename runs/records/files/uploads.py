"""Large files from nodes: they come in parts, go on where they stopped, and are there only when they are whole.

What has come of a file lies beside the output folder, under its node and a key that the node makes of name, size and
time: another version of a file never goes on where this one stopped, and no node goes on with another's.
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from runs.records.files import encrypted, outputs, room
from runs.records.files.paths import run_folder
from trainyard.at_rest.chunks import CannotDecrypt
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from trainyard.contract.calls import UploadProgress
from trainyard.contract.limits import UPLOAD_PART_BYTES as PART_BYTES

KEY = re.compile(r"[0-9a-f]{16,64}")


class WrongOffset(ValueError):
    """The part does not begin where the last one ended."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the next part begins at byte {offset}")
        self.offset = offset


class NotBegun(LookupError):
    """No upload was begun under this key."""

    def __init__(self) -> None:
        super().__init__("Nothing was begun under this key. Begin the file again.")


class NoTarget(LookupError):
    """The file that a link is to is not here."""

    def __init__(self, path: str, same_as: str) -> None:
        super().__init__(f"{same_as!r}, which {path!r} is a link to, is not among the files.")


class UploadingNode(NamedTuple):
    run_id: str
    node_id: str
    node_rank: int
    num_nodes: int
    keyring: Keyring = NO_KEYS  # of the run's project


def begin(sender: UploadingNode, path: str, size: int, key: str) -> UploadProgress:
    """Make room for a file, or find what is here of it. Raises outputs.TooLarge, room.NoRoom, and ValueError for a path
    that is not plainly inside the folder."""
    path = place_of(sender, path)
    name = _name_of(sender, key)
    file, wanted = room.part_path(name), room.Announced(path, size, sender.keyring.encrypts)
    with room.locked():
        if room.read_announcement(name) != wanted:
            file.unlink(missing_ok=True)
        offset = _here(file.stat().st_size, wanted) if file.exists() else 0
        room.check_room(sender.run_id, size, num_here=offset, but=name)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        room.announce(name, wanted)
    if offset >= size:
        if not size:
            with file.open("a+b") as opened:
                if wanted.is_encrypted:
                    encrypted.append_part(opened, b"", run_id=sender.run_id, size=0, keyring=sender.keyring)
        _finish(sender.run_id, wanted, name)
        return UploadProgress(path, size, is_done=True)
    return UploadProgress(path, offset, is_done=False)


def write_part(
    sender: UploadingNode, key: str, offset: int, read: Callable[[int], bytes], sha256: str
) -> UploadProgress:
    """Append one part of a file that the same node has begun. Raises WrongOffset, NotBegun, and ValueError for other
    content than ``sha256`` says, or more than was announced."""
    name = _name_of(sender, key)
    wanted = room.read_announcement(name)
    if wanted is None:
        raise NotBegun
    data = _whole(read)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("the body is not the one that was sealed")
    with room.part_path(name).open("a+b") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # a node that lost our answer may send the part again
        here = _here(opened.seek(0, os.SEEK_END), wanted)
        if here != offset:
            raise WrongOffset(here)
        if here + len(data) > wanted.size:
            raise ValueError(f"the file was announced with {wanted.size:,} bytes")
        if wanted.is_encrypted:
            _append_encrypted(sender, opened, data, wanted.size)
        else:
            opened.write(data)
        offset += len(data)
    if offset == wanted.size:
        _finish(sender.run_id, wanted, name)
    return UploadProgress(wanted.path, offset, is_done=offset == wanted.size)


def link(sender: UploadingNode, path: str, same_as: str) -> str:
    """Let ``path`` be the file that stands at ``same_as``, without another copy of it; return where it stands. Raises
    NoTarget, and ValueError for a path that is not plainly inside."""
    found = outputs.find(sender.run_id, place_of(sender, same_as))
    if found is None:
        raise NoTarget(path, same_as)
    path = place_of(sender, path)
    target = encrypted.place_for(outputs.inside(sender.run_id, path), encrypts=encrypted.is_encrypted(found))
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = target.with_name(f".partial-link-{os.getpid()}-{time.monotonic_ns()}")
    temporary.hardlink_to(found)
    temporary.replace(target)
    temporary.unlink(missing_ok=True)  # rename leaves it where both are the same file already
    encrypted.place_for(target, encrypts=not encrypted.is_encrypted(found)).unlink(missing_ok=True)
    return path


def place_of(sender: UploadingNode, path: str) -> str:
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


def _move_away(sender: UploadingNode, path: str) -> None:
    found = outputs.find(sender.run_id, path)
    target = outputs.inside(sender.run_id, place_of(sender, f"node-{sender.node_rank}/{path}"))
    if found is not None:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        found.replace(encrypted.place_for(target, encrypts=encrypted.is_encrypted(found)))


def _here(stored: int, wanted: room.Announced) -> int:
    return encrypted.bytes_here(stored, wanted.size) if wanted.is_encrypted else stored


def _append_encrypted(sender: UploadingNode, file: BinaryIO, data: bytes, size: int) -> None:
    """Raises WrongOffset, so that the node begins anew, where the key is gone that the file was begun with."""
    try:
        encrypted.append_part(file, data, run_id=sender.run_id, size=size, keyring=sender.keyring)
    except CannotDecrypt as error:
        file.truncate(0)
        raise WrongOffset(0) from error


def _finish(run_id: str, wanted: room.Announced, name: str) -> None:
    outputs.put(run_id, wanted.path, room.part_path(name), encrypts=wanted.is_encrypted)
    room.forget_size(run_id)
    room.announcement_path(name).unlink(missing_ok=True)


def _name_of(sender: UploadingNode, key: str) -> str:
    if not KEY.fullmatch(key):
        raise ValueError("the key is 16 to 64 digits 0-9 and a-f")
    return f"{sender.run_id}.{sender.node_id}.{key}"


def _whole(read: Callable[[int], bytes]) -> bytes:
    parts, size = [], 0
    while part := read(PART_BYTES):
        size += len(part)
        if size > PART_BYTES:
            raise outputs.TooLarge(f"A part has at most {PART_BYTES:,} bytes.")
        parts.append(part)
    return b"".join(parts)
